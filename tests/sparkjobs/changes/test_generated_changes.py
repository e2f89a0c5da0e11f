"""Histories that nobody thought of: a database comes back as it was after each of its transactions.

Transactions that change rows and definitions are drawn at random, and between them backups, marks and compactions. What
the server holds after each is the truth; what the archive says of that position must be the same, and stays so when all
that can be joined is joined. Jobs run without Spark.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.postgresql.connection.server import PostgresServer
from tests.support.archives.compacting import compact, everything_told
from tests.support.generator.lives import begun
from tests.support.generator.trials import many, same_few, tiered

pytestmark = pytest.mark.service

Live = Callable[[st.DataObject, int], None]

BETWEEN = ("", "", "mark", "mark", "changes", "changes", "changes", "full", "join", "consolidate")
"""Drawn behind each transaction."""


@pytest.fixture
def live(postgres: PostgresServer, tmp_path: Path) -> Live:
    """Lets a database live through a drawn history, and brings each of its moments back."""

    def check(data: st.DataObject, transactions: int) -> None:
        with begun(postgres, tmp_path, data) as life:
            store = life.followed.store
            for _ in range(transactions):
                life.history.transaction()
                what = data.draw(st.sampled_from(BETWEEN))
                if what == "mark":
                    life.history.mark()
                elif what in ("join", "consolidate"):
                    compact(store, consolidate=what == "consolidate")
                elif what:
                    life.history.back_up(what)
            life.end()
            before = everything_told(store)
            compact(store)
            assert everything_told(store) == before
            compact(store, consolidate=True)
            life.can_be_gone_back_in()

    return check


@same_few(tiered(2, 4))
@given(data=st.data())
def test_a_history_that_nobody_thought_of_can_be_gone_back_in(live: Live, data: st.DataObject) -> None:
    live(data, 6)


@pytest.mark.exhaustive
@many(600)
@given(data=st.data())
def test_many_histories_that_nobody_thought_of_can_be_gone_back_in(live: Live, data: st.DataObject) -> None:
    live(data, 25)
