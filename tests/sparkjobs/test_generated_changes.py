"""Histories that nobody thought of: a database comes back as it was after each of its transactions.

Transactions that change rows and definitions are drawn at random, and backups between them. What the server holds
after each is the truth; what the archive says of that position must be the same. Jobs run without Spark.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.sources.postgresql.server import PostgresServer
from tests.support.generator.lives import begun
from tests.support.generator.trials import many, same_few

pytestmark = pytest.mark.service

Live = Callable[[st.DataObject, int], None]


@pytest.fixture
def lived(postgres: PostgresServer, tmp_path: Path) -> Live:
    """Lets a database live through a drawn history, and brings each of its moments back."""

    def check(data: st.DataObject, transactions: int) -> None:
        with begun(postgres, tmp_path, data) as life:
            for _ in range(transactions):
                life.history.transaction()
                kind = data.draw(st.sampled_from(("", "", "", "changes", "changes", "full")))
                if kind:
                    life.history.back_up(kind)
            life.end()
            life.can_be_gone_back_in()

    return check


@pytest.mark.exhaustive  # those that are compacted, too, stay in `make test`: they are gone back in as well
@same_few(2)
@given(data=st.data())
def test_a_history_that_nobody_thought_of_can_be_gone_back_in(lived: Live, data: st.DataObject) -> None:
    lived(data, 5)


@pytest.mark.exhaustive
@many(300)
@given(data=st.data())
def test_many_histories_that_nobody_thought_of_can_be_gone_back_in(lived: Live, data: st.DataObject) -> None:
    lived(data, 25)


def migrated(postgres: PostgresServer, tmp_path: Path, data: st.DataObject, transactions: int) -> None:
    """Set marks between drawn transactions, of which some migrate, with few backups."""
    with begun(postgres, tmp_path, data) as life:
        for _ in range(transactions):
            life.history.transaction()
            what = data.draw(st.sampled_from(("", "mark", "mark", "mark", "changes", "full")))
            if what == "mark":
                life.history.mark()
            elif what:
                life.history.back_up(what)
        life.end()
        life.can_be_gone_back_in()


@same_few(2)
@given(data=st.data())
def test_marks_between_migrations_that_nobody_thought_of_are_exact(
    postgres: PostgresServer, tmp_path: Path, data: st.DataObject
) -> None:
    migrated(postgres, tmp_path, data, 6)


@pytest.mark.exhaustive
@many(300)
@given(data=st.data())
def test_marks_between_many_migrations_that_nobody_thought_of_are_exact(
    postgres: PostgresServer, tmp_path: Path, data: st.DataObject
) -> None:
    migrated(postgres, tmp_path, data, 25)
