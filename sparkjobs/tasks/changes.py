"""The work of a task that archives changes: one window of a stream to files in the archive."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.archive.files.blocks import write_parquet
from holdfast.archive.files.packs import Loose, make_pack
from holdfast.archive.format.block import Mark, PassedTable, Transactions
from holdfast.archive.format.document import TableRecord
from holdfast.common.lsn import show_position
from holdfast.postgresql.connection.arrow_session import ArrowSession
from holdfast.postgresql.logical.window_reader import TRANSACTIONS, WindowRequest, read_window
from sparkjobs.tasks.packing import pack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from concurrent.futures import Future

    from holdfast.archive.files.data_files import Writable
    from holdfast.archive.format.document import FileRecord
    from holdfast.postgresql.catalog.catalog import Catalog
    from holdfast.postgresql.connection.address import Address
    from holdfast.postgresql.logical.relation_schema import ChangeForm
    from holdfast.postgresql.logical.window_reader import ChangeBatch, SeenDefinition, Window
    from holdfast.storage import ObjectStore

    Reporter = Callable[[int, int], None]

FILE_BYTES = 64 << 20
"""Of a table's changes in memory, as Arrow: so many make a file."""

MOST_BYTES = 128 << 20
"""Of all tables' changes in memory: above this the largest become files, until half is free."""

_COLUMN_BYTES = 512
"""What a column of a batch takes in memory beside its values."""

_STORED_AT_ONCE = 8
"""Small files, of which the store's answer is what takes long."""

_MOST_BEHIND = 4 * _STORED_AT_ONCE

_SMALL_BYTES = 1 << 20
"""Of a table's changes in memory: no more of them go into a pack."""

PACKED_FROM = 16
"""More tables with few changes than this are stored in packs."""

PACK_BYTES = 4 << 20
"""Of changes in memory, in a pack of up to a hundred tables."""

MOST_BATCHES = 64
"""Of a table, before they are made one: many small ones take more than what is in them."""


@dataclass(frozen=True)
class FinishedWindow:
    """Archived window of a stream.

    :param to_position: the changes of every transaction whose commit record starts before it are in the files.
    :param tables: one for each form of each table, those of a table in order; `packs`: what files of theirs are in.
    :param transactions: None where none has changes of followed tables, or marks.
    :param ddl: positions of commits with which tables were seen to have other columns than before.
    :param passed: tables that were made and dropped in between.
    :param defined: commits that changed definitions, where the log has these.
    :param uncertain: oids of tables with a column that changes do not identify: they need a new snapshot.
    :param messages: how many the server sent; `bounded`: their number may have ended the window.
    :param first: position of the commit record of the first one of `transactions`.
    """

    first: str | None
    to_position: str
    tables: tuple[TableRecord, ...]
    packs: tuple[FileRecord, ...]
    transactions: Transactions | None
    marks: tuple[Mark, ...]
    ddl: tuple[str, ...]
    passed: tuple[PassedTable, ...]
    defined: tuple[SeenDefinition, ...]
    uncertain: frozenset[int]
    messages: int
    bounded: bool


@dataclass(frozen=True)
class WindowTask:
    """Part of the log that is one window.

    :param block: id of the block the files are for.
    :param upto: position; transactions whose commit record starts before it are read.
    :param start: position; those whose commit record starts before it are left out, by a copy of the slot.
        None: where the slot is.
    """

    block: str
    upto: str
    start: str | None = None


class ChangeReader:
    """Work of a task: read a window of a stream and write its changes to files.

    It holds 128 MiB of changes at most, 64 MiB more that are being written, and one batch of messages, however many
    tables have changed and however large a transaction is. Travels in the task's closure, with password and store
    settings.

    :param stream: the name of the slot and of its publication.
    :param most_changes: end with the transaction that brings the messages to this; None: no bound.
    :param source: its name in the archive.
    :param before, after: the catalog of the cut before these changes, and that of now or later.
    :param followed: oids of the tables whose changes are archived.
    :param is_chosen: as `WindowRequest` takes it.
    :param packs: many small files may become few objects.
    :param refuse_above: messages, at most; more end the task (`TooMuchError`); None: any number.
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
        packs: bool,
        is_chosen: Callable[[str], bool] | None = None,
        refuse_above: int | None = None,
    ) -> None:
        self._packs = packs
        self._store = store
        self._address = address
        self._source = source
        self._request = partial(
            WindowRequest,
            slot=stream,
            publication=stream,
            most_changes=most_changes,
            followed=followed,
            is_chosen=is_chosen,
            before=before,
            after=after,
            max_value_bytes=max_value_bytes,
            refuse_above=refuse_above,
        )

    def __call__(self, item: WindowTask, report: Reporter) -> Iterator[FinishedWindow]:
        """Read a window, and yield its record once the store has acknowledged its files."""
        with ArrowSession(self._address) as session, ThreadPoolExecutor(_STORED_AT_ONCE, "write") as pool:
            window = read_window(session, self._address, self._request(start=item.start, upto=item.upto))
            folder = f"data/{self._source}/{{}}/changes/{item.block}"
            files = _Files(self._store, pool, folder, report, packs=self._packs)
            with closing(iter(window)) as batches:
                for batch in batches:
                    files.add(batch)
                    del batch
            yield self._finished(item.block, window.end, files.finish(), tuple(files.packs))

    def _finished(
        self, block: str, window: Window, tables: tuple[TableRecord, ...], packs: tuple[FileRecord, ...]
    ) -> FinishedWindow:
        return FinishedWindow(
            first=show_position(window.transactions[0]["lsn"][0].as_py()) if window.transactions else None,
            to_position=window.to_position,
            tables=tables,
            packs=packs,
            transactions=self._transactions(block, window) if window.transactions else None,
            marks=tuple(Mark(name=each.name, position=each.position, at=each.at, id=each.id) for each in window.marks),
            ddl=window.ddl,
            passed=tuple(PassedTable(**each._asdict()) for each in window.passed),
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
    """Changes of one form of a table that are not written yet, with the files written before; `size` in memory."""

    form: ChangeForm
    first: int
    last: int
    rows: int = 0
    size: int = 0
    batches: list[pa.RecordBatch] = field(default_factory=list)
    files: list[FileRecord] = field(default_factory=list)

    def add(self, batch: ChangeBatch) -> None:
        self.batches.append(batch.rows)
        if len(self.batches) >= MOST_BATCHES:
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
            files=tuple(self.files),
            columns=tuple(column.to_dict() for column in form.columns),
            key=form.key,
            first=show_position(self.first),
            last=show_position(self.last),
        )


@dataclass(frozen=True)
class _Lot:
    """Changes taken from a pile to be written to files with this stem."""

    pile: _Pile
    stem: str
    batches: list[pa.RecordBatch]

    def write(self, store: Writable) -> list[FileRecord]:
        form = self.pile.form
        key = form.columns[form.key_places[0]].name if form.key else None
        return list(write_parquet(store, self.stem, form.schema, self.batches, key=key))


@dataclass(frozen=True)
class _Stored:
    """Files that lots have become, and the pack that they are in, if they are."""

    files: Sequence[tuple[_Pile, list[FileRecord]]]
    pack: FileRecord | None = None


class _Files:
    """Collector of the changes of each table; they are written while others are decoded.

    :param folder: of a table's files, with {} for its oid.
    """

    def __init__(
        self, store: ObjectStore, pool: ThreadPoolExecutor, folder: str, report: Reporter, *, packs: bool
    ) -> None:
        self.packs: list[FileRecord] = []
        self._may_pack = packs
        self._store = store
        self._pool = pool
        self._folder = folder
        self._report = report
        self._piles: list[_Pile] = []
        self._open: dict[int, _Pile] = {}
        self._numbers: dict[int, int] = {}
        self._size = 0
        self._behind: deque[tuple[Future[_Stored], int]] = deque()

    def add(self, batch: ChangeBatch) -> None:
        oid = batch.form.oid
        pile = self._open.get(oid)
        if pile is None or pile.form != batch.form:
            pile = self._open[oid] = _Pile(batch.form, batch.first, batch.last)
            self._piles.append(pile)
        self._size -= pile.size
        pile.add(batch)
        self._size += pile.size
        if pile.size >= FILE_BYTES:
            self._write(pile)
        if self._size >= MOST_BYTES:
            self._write(*self._largest(self._size - MOST_BYTES // 2))

    def finish(self) -> tuple[TableRecord, ...]:
        self._piles.sort(key=lambda pile: pile.form.oid)
        self._write(*self._piles)
        while self._behind:
            self._settle()
        return tuple(pile.record() for pile in self._piles)

    def _largest(self, size: int) -> list[_Pile]:
        """Return the largest piles that are together of a size, in the order of all."""
        piles = sorted(self._piles, key=lambda pile: pile.size, reverse=True)
        count = bisect_left([*accumulate(pile.size for pile in piles)], size) + 1
        return sorted(piles[:count], key=lambda pile: pile.form.oid)

    def _write(self, *piles: _Pile) -> None:
        """Begin to store some piles; where many are small these are packed, neighbours together."""
        small = [pile for pile in piles if pile.batches and pile.size <= _SMALL_BYTES]
        if self._may_pack and len(small) > PACKED_FROM:
            for some in pack(small, lambda pile: pile.size, room=PACK_BYTES):
                self._begin(self._store_pack, some)
        for pile in piles:
            if pile.batches:
                self._begin(self._store_alone, [pile])

    def _begin(self, store: Callable[[list[_Lot]], _Stored], piles: Sequence[_Pile]) -> None:
        """Begin to store some piles, once there is room for them beside those under way."""
        size = sum(pile.size for pile in piles)
        while self._behind and (
            len(self._behind) >= _MOST_BEHIND or size + sum(each for _, each in self._behind) > FILE_BYTES
        ):
            self._settle()
        self._size -= size
        self._behind.append((self._pool.submit(store, [self._take(pile) for pile in piles]), size))

    def _take(self, pile: _Pile) -> _Lot:
        oid = pile.form.oid
        number = self._numbers[oid] = self._numbers.get(oid, -1) + 1
        lot = _Lot(pile, f"{self._folder.format(oid)}/{number:05d}", pile.batches)
        pile.batches, pile.size = [], 0
        return lot

    def _store_alone(self, lots: list[_Lot]) -> _Stored:
        return _Stored([(lot.pile, lot.write(self._store)) for lot in lots])

    def _store_pack(self, lots: list[_Lot]) -> _Stored:
        loose = Loose()
        made = [(lot.pile, lot.write(loose)) for lot in lots]
        files = [(file, loose.files[file.path]) for _, some in made for file in some]
        packed = make_pack(self._folder.format("packs"), files)
        with self._store.open_write(packed.record.path) as target:
            target.write(packed.body)
        return _Stored([(pile, [packed.part(file) for file in some]) for pile, some in made], packed.record)

    def _settle(self) -> None:
        write, _ = self._behind.popleft()
        stored = write.result()
        self.packs += [stored.pack] if stored.pack else []
        for pile, files in stored.files:
            pile.files += files
            for file in files:
                self._report(file.rows, file.size)
