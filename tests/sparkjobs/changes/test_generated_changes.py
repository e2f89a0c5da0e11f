"""Histories that nobody thought of: a database comes back as it was after each of its transactions.

Transactions that change rows and definitions are drawn at random, and backups between them. What the server holds
after each is the truth; what the archive says of that position must be the same. Jobs run without Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.postgresql.connection.server import PostgresServer
from tests.support.generator.lives import begun
from tests.support.generator.trials import many, same_few, tiered

pytestmark = pytest.mark.service

Live = Callable[..., None]

BACKUPS = ("", "", "", "changes", "changes", "full")
MARKS = ("", "mark", "mark", "mark", "changes", "full")
"""Drawn behind each transaction."""


@pytest.fixture
def lived(postgres: PostgresServer, tmp_path: Path) -> Live:
    """Lets a database live through a drawn history, and brings each of its moments back."""

    def check(data: st.DataObject, transactions: int, between: Sequence[str] = BACKUPS) -> None:
        with begun(postgres, tmp_path, data) as life:
            for _ in range(transactions):
                life.history.transaction()
                what = data.draw(st.sampled_from(between))
                if what == "mark":
                    life.history.mark()
                elif what:
                    life.history.back_up(what)
            life.end()
            life.can_be_gone_back_in()

    return check


@pytest.mark.exhaustive
@many(300)
@given(data=st.data())
def test_many_histories_that_nobody_thought_of_can_be_gone_back_in(lived: Live, data: st.DataObject) -> None:
    lived(data, 25)


@same_few(tiered(1, 2))
@given(data=st.data())
def test_marks_between_migrations_that_nobody_thought_of_are_exact(lived: Live, data: st.DataObject) -> None:
    lived(data, 6, MARKS)


@pytest.mark.exhaustive
@many(300)
@given(data=st.data())
def test_marks_between_many_migrations_that_nobody_thought_of_are_exact(lived: Live, data: st.DataObject) -> None:
    lived(data, 25, MARKS)
