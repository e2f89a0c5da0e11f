"""Commit times of transactions, from the files that list them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.archive.files.blocks import read_batches

if TYPE_CHECKING:
    from datetime import datetime

    from holdfast.archive.format.block import Transactions
    from holdfast.storage import ObjectStore


def first_later(store: ObjectStore, transactions: Transactions, time: datetime, *, since: int) -> int | None:
    """Return the position, from `since` on, of the first transaction committed after a time, or None."""
    if transactions.last_time <= time:
        return None
    table = pa.Table.from_batches(read_batches(store, transactions.file))
    later = pc.and_(
        pc.greater(table["committed_at"], pa.scalar(time, table["committed_at"].type)),
        pc.greater_equal(table["lsn"], since),
    )
    first = pc.min(table["lsn"].filter(later)).as_py()
    return None if first is None else int(first)


def ends(store: ObjectStore, transactions: Transactions | None, *, before: int | None = None) -> list[int]:
    """Return the last end position of transactions that begin before a position, as a list; [] for none."""
    if transactions is None:
        return []
    table = pa.Table.from_batches(read_batches(store, transactions.file))
    positions = table["end_lsn"] if before is None else table["end_lsn"].filter(pc.less(table["lsn"], before))
    return [int(pc.max(positions).as_py())] if len(positions) else []
