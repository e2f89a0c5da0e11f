"""Histories that nobody thought of: a database comes back as it was after each of its transactions.

Transactions that change rows and definitions are drawn at random, and backups between them. What the server holds
after each is the truth; what the archive says of that position must be the same. Jobs run without Spark.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.sources.postgresql.server import PostgresServer
from sparkjobs import following
from tests.support.followed import Followed, agree, comes_back, open_followed
from tests.support.generator.histories import History
from tests.support.generator.trials import many, same_few
from tests.support.servers import passing_database

pytestmark = pytest.mark.service

_numbers = itertools.count(1)


@pytest.fixture
def lived(
    postgres: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[st.DataObject, int], None]:
    """Lets a database live through a drawn history, and brings each of its moments back."""

    def check(data: st.DataObject, transactions: int) -> None:
        window = data.draw(st.sampled_from((following.WINDOW_BYTES, 6000)))
        folder = tmp_path / f"archive-{next(_numbers)}"
        with pytest.MonkeyPatch.context() as patch, passing_database(postgres) as source:
            patch.setattr(following, "WINDOW_BYTES", window)
            patch.setattr(following, "_MOST_WINDOW_BYTES", window)
            with open_followed(source, folder) as followed:
                first, exact = live(followed, data, transactions)
                agree(followed, first, exact)
                at = data.draw(st.sampled_from(followed.moments[first:]))[0]
                for moment in (f"lsn:{at}", "latest"):
                    with passing_database(postgres) as target:
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


@same_few(4)
@given(data=st.data())
def test_a_history_that_nobody_thought_of_can_be_gone_back_in(
    lived: Callable[[st.DataObject, int], None], data: st.DataObject
) -> None:
    lived(data, 8)


@pytest.mark.soak
@many(300)
@given(data=st.data())
def test_many_histories_that_nobody_thought_of_can_be_gone_back_in(
    lived: Callable[[st.DataObject, int], None], data: st.DataObject
) -> None:
    lived(data, 25)
