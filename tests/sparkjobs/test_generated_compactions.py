"""Histories that nobody thought of, compacted now and then: each moment stays what it was."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.sources.postgresql.server import PostgresServer
from sparkjobs import following
from tests.support.compacting import compact, everything_told
from tests.support.followed import agree, comes_back, open_followed
from tests.support.generator.histories import History
from tests.support.generator.trials import many, same_few
from tests.support.servers import passing_database

pytestmark = pytest.mark.service

_numbers = itertools.count(1)

Live = Callable[[st.DataObject, int], None]


@pytest.fixture
def live(postgres: PostgresServer, tmp_path: Path) -> Live:
    """Lets a database live through a drawn history, compacts its archive, and looks at each moment."""

    def check(data: st.DataObject, transactions: int) -> None:
        folder = tmp_path / f"archive-{next(_numbers)}"
        with pytest.MonkeyPatch.context() as patch, passing_database(postgres) as source:
            window = data.draw(st.sampled_from((following.WINDOW_BYTES, 6000)))
            patch.setattr(following, "WINDOW_BYTES", window)
            patch.setattr(following, "_MOST_WINDOW_BYTES", window)
            with open_followed(source, folder) as followed:
                history = History(followed, data.draw)
                history.begin()
                followed.back_up()
                history.cut()
                first = len(followed.moments)
                followed.note()
                for _ in range(transactions):
                    history.transaction()
                    kind = data.draw(st.sampled_from(("", "changes", "changes", "full", "joined", "consolidated")))
                    if kind in ("changes", "full"):
                        followed.back_up(kind)
                        history.cut()
                    elif kind:
                        compact(followed.store, consolidate=kind == "consolidated")
                for _ in range(2):
                    followed.back_up()
                before = everything_told(followed.store)
                compact(followed.store)
                assert everything_told(followed.store) == before
                compact(followed.store, consolidate=True)
                agree(followed, first, history.exact())
                at = data.draw(st.sampled_from(followed.moments[first:]))[0]
                for moment in (f"lsn:{at}", "latest"):
                    with passing_database(postgres) as target:
                        comes_back(followed, moment, target)

    return check


@same_few(3)
@given(data=st.data())
def test_a_history_that_nobody_thought_of_stays_what_it_was_when_it_is_compacted(
    live: Live, data: st.DataObject
) -> None:
    live(data, 8)


@pytest.mark.soak
@many(300)
@given(data=st.data())
def test_many_histories_that_nobody_thought_of_stay_what_they_were_when_they_are_compacted(
    live: Live, data: st.DataObject
) -> None:
    live(data, 25)
