"""Blocks of a source whose changes join, with the files of their transactions."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

import pyarrow as pa

from holdfast.archive import Archive, Change
from holdfast.archive.files.blocks import write_parquet
from holdfast.archive.format.block import Block, Coverage, Stream, Transactions
from holdfast.archive.history import target_resolution
from holdfast.archive.history.coverage import covered_ranges
from holdfast.common.lsn import parse_position, show_position

MakeBlock = Callable[..., Block]

TRANSACTIONS = pa.schema(
    [("lsn", pa.int64()), ("end_lsn", pa.int64()), ("xid", pa.int64()), ("committed_at", pa.timestamp("us", "UTC"))]
)


class ChainWriter:
    """Commits blocks of a source whose stream was opened at 0/100."""

    def __init__(self, archive: Archive, block: MakeBlock, noon: datetime) -> None:
        self.archive = archive
        self._block = block
        self._noon = noon
        self._end = "0/100"
        self._time = noon
        self._count = 0
        self.followed = {7: 70}

    def snapshot(self, position: str, minute: int, *, opened: bool = False, **more: object) -> int:
        stream = Stream(
            slot="s", position=self._end, opened=opened, publication="s", publication_oid=1, followed=self.followed
        )
        block = self._block(identity=self._name(), position=position, at=self._noon + timedelta(minutes=minute))
        return self._add(block.model_copy(update={"stream": stream, "schema_version": "1", **more}))

    def changes(self, to: str, minute: int, *commits: tuple[str, int], **more: object) -> int:
        """:param commits: position and minute of each transaction."""
        at = self._noon + timedelta(minutes=minute)
        name = self._name()
        block = self._block(identity=name, position=to, at=at)
        covers = Coverage(from_position=self._end, to_position=to, from_time=self._time, to_time=at)
        stream = Stream(slot="s", position=self._end, publication="s", publication_oid=1, followed=self.followed)
        update = {
            "kind": "changes",
            "covers": covers,
            "stream": stream,
            "tables": (),
            "schema_version": "1",
            "transactions": self._transactions(name, commits),
            **more,
        }
        self._end, self._time = to, at
        return self._add(block.model_copy(update=update))

    def _name(self) -> str:
        self._count += 1
        return f"b{self._count}"

    def _transactions(self, name: str, commits: tuple[tuple[str, int], ...]) -> Transactions | None:
        if not commits:
            return None
        times = [self._noon + timedelta(minutes=minute) for _, minute in commits]
        lsns = [parse_position(position) for position, _ in commits]
        batch = pa.record_batch([lsns, [lsn + 8 for lsn in lsns], lsns, times], schema=TRANSACTIONS)
        (file,) = write_parquet(
            self.archive.store, f"data/shop_db/transactions/changes/{name}/0", TRANSACTIONS, [batch]
        )
        return Transactions(file=file, count=len(commits), first_time=min(times), last_time=max(times))

    def _add(self, block: Block) -> int:
        change = Change(kind="backup", add=(block,))
        return self.archive.add(lambda state: change, check=lambda: None, fence=None).sequence

    def at(self, text: str) -> str:
        moment = target_resolution.resolve(self.archive.state, self.archive.store, "shop_db", text)
        return show_position(moment.position)

    def minute(self, minute: int) -> str:
        return self.at((self._noon + timedelta(minutes=minute)).isoformat())

    def intervals(self) -> list[tuple[str, str]]:
        found = covered_ranges(self.archive.state, "shop_db")
        return [(show_position(each.first), show_position(each.last)) for each in found]
