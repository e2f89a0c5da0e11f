"""Commit times of transactions: where the first later one begins, and where the last one ends."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.archive.files.blocks import write_parquet
from holdfast.archive.format.block import Transactions
from holdfast.archive.history.commit_times import ends, first_later
from tests.support.archives.chain_writer import TRANSACTIONS
from tests.support.stores.memory_store import MemoryStore

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)

Commits = list[tuple[int, int]]
"""The position and the minute of each; it ends eight behind."""


def at(minute: int) -> datetime:
    return NOON + timedelta(minutes=minute)


def written(store: MemoryStore, commits: Commits) -> Transactions:
    lsns, times = [lsn for lsn, _ in commits], [at(minute) for _, minute in commits]
    batch = pa.record_batch([lsns, [lsn + 8 for lsn in lsns], lsns, times], schema=TRANSACTIONS)
    (file,) = write_parquet(store, "data/shop_db/transactions/changes/b/0", TRANSACTIONS, [batch])
    return Transactions(file=file, count=len(commits), first_time=min(times), last_time=max(times))


@pytest.mark.parametrize(
    ("minute", "since", "found"),
    [
        (0, 0, 100),
        (2, 0, 100),
        (3, 0, 300),  # the second was committed before the first, by the clock
        (4, 0, 300),
        (5, 0, None),  # a time of its own is not later
        (9, 0, None),
        (1, 100, 100),
        (1, 101, 200),
        (2, 101, 300),
        (1, 301, None),
    ],
)
def test_the_first_transaction_after_a_time_is_the_first_in_the_log(minute: int, since: int, found: int | None) -> None:
    store = MemoryStore()
    transactions = written(store, [(100, 3), (200, 2), (300, 5)])
    assert first_later(store, transactions, at(minute), since=since) == found


def test_where_the_block_says_that_none_is_later_its_file_is_not_read() -> None:
    store = MemoryStore()
    transactions = written(store, [(100, 3), (200, 2)])
    asked = len(store.requests)
    assert first_later(store, transactions, at(3), since=0) is None
    assert store.requests[asked:] == []


@pytest.mark.parametrize(
    ("before", "found"), [(None, [308]), (301, [308]), (300, [208]), (101, [108]), (100, []), (0, [])]
)
def test_the_last_end_is_that_of_those_that_begin_before(before: int | None, found: list[int]) -> None:
    store = MemoryStore()
    assert ends(store, written(store, [(100, 1), (300, 2), (200, 3)]), before=before) == found


def test_without_transactions_nothing_ends() -> None:
    assert ends(MemoryStore(), None) == ends(MemoryStore(), None, before=5) == []


@given(
    st.dictionaries(st.integers(0, 9), st.integers(0, 9), min_size=1, max_size=5), st.integers(0, 9), st.integers(0, 9)
)
def test_all_before_the_first_later_one_were_committed_by_then(times: dict[int, int], minute: int, since: int) -> None:
    store = MemoryStore()
    times = dict(sorted(times.items()))
    transactions = written(store, list(times.items()))
    later = [lsn for lsn, each in times.items() if each > minute and lsn >= since]
    assert first_later(store, transactions, at(minute), since=since) == min(later, default=None)
    assert ends(store, transactions, before=since) == [lsn + 8 for lsn in times if lsn < since][-1:]
