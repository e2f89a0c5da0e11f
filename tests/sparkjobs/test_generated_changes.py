"""Histories that nobody thought of: a database comes back as it was after each of its transactions.

Transactions that change rows and definitions are drawn at random, and backups between them. What the server holds
after each is the truth; what the archive says of that position must be the same. Jobs run without Spark.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from holdfast.sources.postgresql.address import Address
from holdfast.sources.postgresql.server import PostgresServer
from holdfast.sources.postgresql.session import connect
from sparkjobs import following
from tests.support.followed import Followed, agree, comes_back, open_followed
from tests.support.generator.histories import History

pytestmark = pytest.mark.service

_numbers = itertools.count(1)
_COMMON = settings(
    deadline=None,
    database=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)


@contextmanager
def new_database(server: PostgresServer) -> Iterator[Address]:
    name = f"history_{next(_numbers)}"
    with connect(Address(server.url(), server.password)) as session:
        session.execute(f"create database {name}".encode())
        yield Address(server.url(name), server.password)
        session.execute(
            "select pg_drop_replication_slot(slot_name) from pg_replication_slots where database = %s", (name,)
        )
        session.execute(f"drop database {name} with (force)".encode())


@pytest.fixture
def lived(
    postgres: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[st.DataObject, int], None]:
    """Lets a database live through a drawn history, and brings each of its moments back."""

    def check(data: st.DataObject, transactions: int) -> None:
        window = data.draw(st.sampled_from((following.WINDOW_BYTES, 6000)))
        folder = tmp_path / f"archive-{next(_numbers)}"
        with pytest.MonkeyPatch.context() as patch, new_database(postgres) as source:
            patch.setattr(following, "WINDOW_BYTES", window)
            patch.setattr(following, "_MOST_WINDOW_BYTES", window)
            with open_followed(source, folder) as followed:
                first, exact = live(followed, data, transactions)
                agree(followed, first, exact)
                at = data.draw(st.sampled_from(followed.moments[first:]))[0]
                for moment in (f"lsn:{at}", "latest"):
                    with new_database(postgres) as target:
                        comes_back(followed, moment, target)

    return check


def live(followed: Followed, data: st.DataObject, transactions: int) -> tuple[int, set[int]]:
    """Return the number of the first moment that can be gone back to, and the oids of what must then be exact."""
    history = History(followed, data.draw)
    history.begin()
    followed.back_up()
    history.cut()
    first = len(followed.moments)
    followed.note()
    for _ in range(transactions):
        history.transaction()
        kind = data.draw(st.sampled_from(("", "", "", "changes", "changes", "full")))
        if kind:
            followed.back_up(kind)
            history.cut()
    for _ in range(2):
        followed.back_up()
    return first, history.exact()


@settings(_COMMON, max_examples=4, derandomize=True, phases=[Phase.explicit, Phase.generate])
@given(data=st.data())
def test_a_history_that_nobody_thought_of_can_be_gone_back_in(
    lived: Callable[[st.DataObject, int], None], data: st.DataObject
) -> None:
    lived(data, 8)


@pytest.mark.soak
@settings(_COMMON, max_examples=int(os.environ.get("HOLDFAST_GENERATED", "300")))
@given(data=st.data())
def test_many_histories_that_nobody_thought_of_can_be_gone_back_in(
    lived: Callable[[st.DataObject, int], None], data: st.DataObject
) -> None:
    lived(data, 25)
