"""Databases that live through drawn histories, whose backups are then gone back in."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import strategies as st

from holdfast.sources.postgresql.server import PostgresServer
from sparkjobs import following
from tests.support.followed import Followed, agree, comes_back, open_followed
from tests.support.generator.histories import History
from tests.support.servers import passing_database

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

    def back_up(self, kind: str) -> None:
        """Take a backup, which the history knows of."""
        self.followed.back_up(kind)
        self.history.cut()

    def can_be_gone_back_in(self) -> None:
        """Make sure of each moment in the archive, and that a drawn one and the last come back in a database."""
        agree(self.followed, self.first, self.history.exact())
        at = self.history.draw(st.sampled_from(self.followed.moments[self.first :]))[0]
        for moment in (f"lsn:{at}", "latest"):
            with passing_database(self.server) as target:
                comes_back(self.followed, moment, target)


@contextmanager
def begun(server: PostgresServer, place: Path, data: st.DataObject) -> Iterator[Life]:
    """Make a database, its first tables and the first backup of it; windows of changes are small now and then.

    Small ones are two at a time, of which the second is in vain where the first one has too many changes.
    They grow where others' databases fill the log, as autovacuum does at any time: thousands of windows took an hour.
    """
    window = data.draw(st.sampled_from((following.WINDOW_BYTES, 6000)))
    most = data.draw(st.sampled_from((following._MOST_CHANGES, 20)))
    with pytest.MonkeyPatch.context() as patch, passing_database(server) as source:
        patch.setattr(following, "WINDOW_BYTES", window)
        patch.setattr(following, "_MOST_CHANGES", most)
        # One for each example: the folder of a test is the same for all of its examples.
        with open_followed(source, place / f"archive-{next(_numbers)}") as followed:
            history = History(followed, data.draw)
            history.begin()
            followed.back_up()
            history.cut()
            first = len(followed.moments)
            followed.note()
            yield Life(server, followed, history, first)
