"""The work of a task that archives changes: one window of a stream to files in the archive."""

from __future__ import annotations

from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.archive.blocks import write_parquet
from holdfast.archive.model import Mark, TableRecord, Transactions
from holdfast.position import show_position
from holdfast.sources.postgresql.arrow_session import ArrowSession
from holdfast.sources.postgresql.changes import TRANSACTIONS, WindowRequest, read_window

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Future

    from holdfast.archive.model import FileRecord
    from holdfast.sources.postgresql.address import Address
    from holdfast.sources.postgresql.catalog import Catalog
    from holdfast.sources.postgresql.change_forms import ChangeForm
    from holdfast.sources.postgresql.changes import ChangeBatch, Window
    from holdfast.storage import ObjectStore

    Reporter = Callable[[int, int], None]

_FILE_BYTES = 64 << 20
"""Of a table's changes in memory, as Arrow: so many make a file."""

_MOST_BYTES = 128 << 20
"""Of all tables' changes in memory: above this the largest become files, until half is free."""

_COLUMN_BYTES = 512
"""What a column of a batch takes in memory beside its values."""

_STORED_AT_ONCE = 8
"""Small files, of which the store's answer is what takes long."""

_MOST_BEHIND = 4 * _STORED_AT_ONCE

_MOST_BATCHES = 64
"""Of a table, before they are made one: many small ones take more than what is in them."""


@dataclass(frozen=True)
class FinishedWindow:
    """What was archived of a window.

    :param to_position: the changes of every transaction whose commit record starts before it are in the files.
    :param tables: one for each form of each table, those of a table in order.
    :param transactions: None where none has changes of followed tables, or marks.
    :param ddl: positions of commits with which tables were seen to have other columns than before.
    :param defined: positions of commits that changed definitions, where the log tells of these.
    :param uncertain: oids of tables with a column that could not be told: they need a new snapshot.
    :param messages: how many the server sent; `bounded`: their number may have ended the window.
    :param first: position of the commit record of the first one of `transactions`.
    """

    first: str | None
    to_position: str
    tables: tuple[TableRecord, ...]
    transactions: Transactions | None
    marks: tuple[Mark, ...]
    ddl: tuple[str, ...]
    defined: tuple[str, ...]
    uncertain: frozenset[int]
    messages: int
    bounded: bool


@dataclass(frozen=True)
class Stretch:
    """The part of the log that is one window.

    :param block: id of the block the files are for.
    :param upto: position; transactions whose commit record starts before it are read.
    :param start: position; those whose commit record starts before it are left out, by a copy of the slot.
        None: where the slot is.
    """

    block: str
    upto: str
    start: str | None = None


class ChangeReader:
    """The work of a Spark task: read a window of a stream and write what changed to files.

    It holds 128 MiB of changes at most, 64 MiB more that are being written, and one batch of messages, however many
    tables have changed and however large a transaction is. Travels in the task's closure, with password and store
    settings.

    :param stream: the name of the slot and of its publication.
    :param most_changes: end with the transaction that brings the messages to this; None: no bound.
    :param source: its name in the archive.
    :param before, after: the catalog of the cut before these changes, and that of now or later.
    :param followed: oids of the tables whose changes are archived.
    """

    def __init__(
        self,
        store: ObjectStore,
        address: Address,
        *,
        stream: str,
        most_changes: int | None,
        source: str,
        before: Catalog | None,
        after: Catalog | None,
        followed: frozenset[int],
        max_value_bytes: int,
    ) -> None:
        self._store = store
        self._address = address
        self._source = source
        self._request = partial(
            WindowRequest,
            slot=stream,
            publication=stream,
            most_changes=most_changes,
            followed=followed,
            before=before,
            after=after,
            max_value_bytes=max_value_bytes,
        )

    def __call__(self, item: Stretch, report: Reporter) -> Iterator[FinishedWindow]:
        """Read a window and yield what was archived, once the store has acknowledged its files."""
        with ArrowSession(self._address) as session, ThreadPoolExecutor(_STORED_AT_ONCE, "write") as pool:
            window = read_window(session, self._address, self._request(start=item.start, upto=item.upto))
            files = _Files(self._store, pool, f"data/{self._source}/{{}}/changes/{item.block}", report)
            with closing(iter(window)) as batches:
                for batch in batches:
                    files.add(batch)
                    del batch
            yield self._finished(item.block, window.end, files.finish())

    def _finished(self, block: str, window: Window, tables: tuple[TableRecord, ...]) -> FinishedWindow:
        return FinishedWindow(
            first=show_position(window.transactions[0]["lsn"][0].as_py()) if window.transactions else None,
            to_position=window.to_position,
            tables=tables,
            transactions=self._transactions(block, window) if window.transactions else None,
            marks=tuple(Mark(name=each.name, position=each.position, at=each.at) for each in window.marks),
            ddl=window.ddl,
            defined=window.defined,
            uncertain=window.uncertain,
            messages=window.messages,
            bounded=window.bounded,
        )

    def _transactions(self, block: str, window: Window) -> Transactions:
        stem = f"data/{self._source}/transactions/changes/{block}/00000"
        (file,) = write_parquet(self._store, stem, TRANSACTIONS, window.transactions, key="lsn")
        times = pc.min_max(pa.chunked_array([batch.column("committed_at") for batch in window.transactions])).as_py()
        return Transactions(file=file, count=file.rows, first_time=times["min"], last_time=times["max"])


@dataclass
class _Pile:
    """Changes of one form of a table that are not written yet, and what was written of it.

    :param size: bytes it takes in memory.
    """

    form: ChangeForm
    first: int
    last: int
    rows: int = 0
    size: int = 0
    batches: list[pa.RecordBatch] = field(default_factory=list)
    writes: list[Future[list[FileRecord]]] = field(default_factory=list)

    def add(self, batch: ChangeBatch) -> None:
        self.batches.append(batch.rows)
        if len(self.batches) >= _MOST_BATCHES:
            self.batches = pa.Table.from_batches(self.batches).combine_chunks().to_batches()
        self.size = sum(each.nbytes + _COLUMN_BYTES * each.num_columns for each in self.batches)
        self.rows += batch.rows.num_rows
        self.last = batch.last

    def record(self) -> TableRecord:
        form = self.form
        return TableRecord(
            id=str(form.oid),
            table_schema=form.table_schema,
            name=form.name,
            rows=self.rows,
            digest="",
            files=tuple(file for write in self.writes for file in write.result()),
            columns=tuple(column.to_dict() for column in form.columns),
            key=form.key,
            first=show_position(self.first),
            last=show_position(self.last),
        )


class _Files:
    """Collects the changes of each table and has them written while others are decoded.

    :param folder: of a table's files, with {} for its oid.
    """

    def __init__(self, store: ObjectStore, pool: ThreadPoolExecutor, folder: str, report: Reporter) -> None:
        self._store = store
        self._pool = pool
        self._folder = folder
        self._report = report
        self._piles: dict[int, _Pile] = {}
        self._closed: list[_Pile] = []
        self._numbers: dict[int, int] = {}
        self._size = 0
        self._behind: deque[tuple[Future[list[FileRecord]], int]] = deque()

    def add(self, batch: ChangeBatch) -> None:
        """Take changes; those of a table come in order."""
        oid = batch.form.oid
        pile = self._piles.get(oid)
        if pile is not None and pile.form != batch.form:
            self._close(pile)
            pile = None
        if pile is None:
            pile = self._piles[oid] = _Pile(batch.form, batch.first, batch.last)
        self._size -= pile.size
        pile.add(batch)
        self._size += pile.size
        if pile.size >= _FILE_BYTES:
            self._write(pile)
        if self._size >= _MOST_BYTES:
            for largest in sorted(self._piles.values(), key=lambda each: each.size, reverse=True):
                self._write(largest)
                if self._size < _MOST_BYTES // 2:
                    break

    def finish(self) -> tuple[TableRecord, ...]:
        """Write what is left, wait, and return what there is of each form."""
        for pile in list(self._piles.values()):
            self._close(pile)
        while self._behind:
            self._settle()
        return tuple(pile.record() for pile in self._closed)

    def _close(self, pile: _Pile) -> None:
        self._write(pile)
        self._closed.append(self._piles.pop(pile.form.oid))

    def _write(self, pile: _Pile) -> None:
        """Begin a file, once there is room for it beside those that are being written."""
        if not pile.batches:
            return
        size = pile.size
        while self._behind and (
            len(self._behind) >= _MOST_BEHIND or size + sum(each for _, each in self._behind) > _FILE_BYTES
        ):
            self._settle()
        oid = pile.form.oid
        number = self._numbers[oid] = self._numbers.get(oid, -1) + 1
        self._size -= size
        batches, pile.batches, pile.size = pile.batches, [], 0
        write = self._pool.submit(self._store_file, pile.form, number, batches)
        pile.writes.append(write)
        self._behind.append((write, size))

    def _store_file(self, form: ChangeForm, number: int, batches: list[pa.RecordBatch]) -> list[FileRecord]:
        stem = f"{self._folder.format(form.oid)}/{number:05d}"
        key = form.columns[form.key_places[0]].name if form.key else None
        return list(write_parquet(self._store, stem, form.schema, batches, key=key))

    def _settle(self) -> None:
        """Wait for the oldest file that is being written, and tell of it."""
        write, _ = self._behind.popleft()
        for file in write.result():
            self._report(file.rows, file.size)
