"""Blocks of changes and snapshots of a source, of files that are made up."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from holdfast.archive import Archive, Change
from holdfast.archive.format.block import Block, Coverage, Stream, Transactions
from holdfast.archive.format.document import FileRecord, TableRecord
from holdfast.archive.maintenance.compaction import (
    CompactionPolicy,
    Group,
    form_runs,
    join,
    join_transactions,
    plan_compaction,
)
from holdfast.archive.maintenance.consolidation import newest_cut, synthetic_block, target_of
from holdfast.common.lsn import show_position

MakeBlock = Callable[..., Block]


KB = 1000


POLICY = CompactionPolicy(min_blocks=3, small_bytes=100 * KB, target_bytes=300 * KB, min_age=timedelta(minutes=10))


class Writer:
    """Commits blocks of a source, a minute and a position of 16 apart."""

    def __init__(self, archive: Archive, block: MakeBlock, noon: datetime) -> None:
        self.archive = archive
        self._block = block
        self.noon = noon
        self.at = 0
        self.end = 0
        self.minute = 0
        self.slot = "s"

    def full(self, **more: object) -> str:
        """Add a snapshot."""
        stream = self._stream(opened=self.at == 0)
        block = self._block(identity=f"full-{self._next}", position=self._position, at=self._now)
        return self._add(block.model_copy(update={"stream": stream, "schema_version": "1", **more}))

    def changes(self, size: int = KB, *, transactions: int = 0, **more: Any) -> str:
        """Add changes with a file of so many bytes."""
        name = f"changes-{self._next}"
        start, since = self._position, self._now
        stream = self._stream()
        self.at += 16
        self.end = self.at
        self.minute += 1
        count = more.pop("rows", 1)
        table = TableRecord(
            id="7", table_schema="shop", name="orders", rows=count, digest="", key=(1,), first=start, last=start,
            files=(file(f"data/shop_db/7/changes/{name}/0.parquet", size, count),), columns=more.pop("columns", ()),
        )  # fmt: skip
        block = self._block(identity=name, position=self._position, at=self._now)
        told = {
            "kind": "changes",
            "covers": Coverage(from_position=start, to_position=self._position, from_time=since, to_time=self._now),
            "stream": stream,
            "tables": (table,),
            "schema_version": "1",
            "transactions": self._transactions(name, transactions) if transactions else None,
        }
        return self._add(block.model_copy(update={**told, **more}))

    def plan(self, policy: CompactionPolicy = POLICY, *, later: timedelta = timedelta(hours=1)) -> list[list[str]]:
        """Return the groups, an hour after the last block."""
        return [list(group.ids) for group in self.groups(policy, later=later)]

    def groups(self, policy: CompactionPolicy = POLICY, *, later: timedelta = timedelta(hours=1)) -> tuple[Group, ...]:
        return plan_compaction(self.archive.state, policy, self._now + later)

    def compact(self, policy: CompactionPolicy = POLICY) -> list[str]:
        """Join what is worth it, into files that are made up; return the new blocks."""
        found = []
        for group in self.groups(policy):
            identity = f"joined-{self._next}-{group.ids[0]}"
            tables = tuple(
                run.record([file(f"data/shop_db/7/changes/{identity}/{run.number}.parquet", run.size, run.rows)])
                for run in form_runs(group)
            )
            count = sum(each.head.transactions.count for each in group.blocks if each.head.transactions)
            listed = file(f"data/shop_db/transactions/changes/{identity}/0.parquet", 10, count) if count else None
            joined = join_transactions(group, listed)
            block = join(group, identity=identity, run="run-3", tables=tables, transactions=joined)
            change = Change(kind="compaction", add=(block,), remove=group.ids)
            self.archive.add(lambda state, change=change: change, check=lambda: None, fence=None)  # type: ignore[misc]
            found.append(identity)
        return found

    def consolidate(self, left_out: tuple[str, ...] = ()) -> None:
        """Make a snapshot of the newest moment that is known, of no tables."""
        cut = newest_cut(self.archive.state, "shop_db")
        assert cut is not None
        assert target_of(self.archive.state, self.archive.store, cut).is_snapshot is False
        name = f"made-{self._next}"
        self._add(synthetic_block(cut, identity=name, run="run-4", tables=(), packs=(), left_out=left_out))

    @property
    def _next(self) -> int:
        return self.archive.state.sequence + 1

    @property
    def _position(self) -> str:
        return show_position(0x100 + self.at)

    @property
    def _now(self) -> datetime:
        return self.noon + timedelta(minutes=self.minute)

    def _stream(self, *, opened: bool = False) -> Stream:
        position = show_position(0x100 + self.end)
        return Stream(slot=self.slot, position=position, opened=opened, publication="s", publication_oid=1,
                      followed={7: 70})  # fmt: skip

    def _transactions(self, name: str, count: int) -> Transactions:
        listed = file(f"data/shop_db/transactions/changes/{name}/0.parquet", 10, count)
        return Transactions(file=listed, count=count, first_time=self._now, last_time=self._now)

    def _add(self, block: Block) -> str:
        self.archive.add(lambda state: Change(kind="backup", add=(block,)), check=lambda: None, fence=None)
        return block.id


def file(path: str, size: int, rows: int = 0) -> FileRecord:
    return FileRecord(path=path, size=size, sha256="0" * 64, rows=rows)
