"""Histories that nobody thought of, compacted now and then: each moment stays what it was."""

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


@pytest.fixture
def live(postgres: PostgresServer, tmp_path: Path) -> Live:
    """Lets a database live through a drawn history, compacts its archive, and looks at each moment."""

    def check(data: st.DataObject, transactions: int) -> None:
        with begun(postgres, tmp_path, data) as life:
            store = life.followed.store
            for _ in range(transactions):
                life.history.transaction()
                kind = data.draw(st.sampled_from(("", "changes", "changes", "full", "joined", "consolidated")))
                if kind in ("changes", "full"):
                    life.history.back_up(kind)
                elif kind:
                    compact(store, consolidate=kind == "consolidated")
            life.end()
            before = everything_told(store)
            compact(store)
            assert everything_told(store) == before
            compact(store, consolidate=True)
            life.can_be_gone_back_in()

    return check


@same_few(tiered(1, 2))
@given(data=st.data())
def test_a_history_that_nobody_thought_of_stays_what_it_was_when_it_is_compacted(
    live: Live, data: st.DataObject
) -> None:
    live(data, 5)


@pytest.mark.exhaustive
@many(300)
@given(data=st.data())
def test_many_histories_that_nobody_thought_of_stay_what_they_were_when_they_are_compacted(
    live: Live, data: st.DataObject
) -> None:
    live(data, 25)
