"""Databases that live through drawn histories, whose backups are then gone back in."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hypothesis import note
from hypothesis import strategies as st

from holdfast.postgresql.connection.server import PostgresServer
from tests.support.following.followed import Followed, agree_at, calm_at, comes_back, is_as_the_source, open_followed
from tests.support.generator.histories import History
from tests.support.servers.postgres import passing_database

_numbers = itertools.count(1)


@dataclass(frozen=True)
class Life:
    """A database that was backed up once, and what happens to it from then on.

    :param first: number of the first moment that can be gone back to.
    """

    server: PostgresServer
    followed: Followed
    history: History
    first: int

    def end(self) -> None:
        """Take the last backups: after the first of them all is followed that can be."""
        self.history.back_up()
        self.followed.note()
        self.history.back_up()

    def can_be_gone_back_in(self) -> None:
        """Make sure of each moment in the archive, and that a drawn one and the last come back in a database."""
        note("\n".join(self.history.script))
        for number in range(self.first, len(self.followed.moments)):
            calm = calm_at(self.followed, number) if number > self.first else ()
            agree_at(self.followed, number, self.history.exact(number), calm=calm)
        for number, name in self.history.marks.items():
            taken = self.followed.moment(name)
            assert taken.approximate == "" or taken.unfit, name
            agree_at(self.followed, number, () if taken.unfit else self.history.exact(number), at=name)
            agree_at(self.followed, number, self.history.exact(number), "later", at=name)
        at = self.history.chance.one(self.followed.moments[self.first :])[0]
        for moment in (f"lsn:{at}", "latest"):
            with passing_database(self.server) as target:
                comes_back(self.followed, moment, target)
                if moment == "latest":
                    is_as_the_source(self.followed, target)


@contextmanager
def begun(server: PostgresServer, place: Path, data: st.DataObject) -> Iterator[Life]:
    """Make a database, its first tables and the first backup of it."""
    # One for each example: the folder of a test is the same for all of its examples.
    archive = place / f"archive-{next(_numbers)}"
    with passing_database(server) as source, open_followed(source, archive) as followed:
        history = History(followed, data.draw)
        history.begin()
        history.back_up()
        first = len(followed.moments)
        followed.note()
        yield Life(server, followed, history, first)
