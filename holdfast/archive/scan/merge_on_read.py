"""Merge-on-read: rows of a snapshot that no change has touched, and those that changes left."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyarrow.fs import LocalFileSystem

from holdfast.archive.files.blocks import open_parquet, read_batches, write_parquet
from holdfast.archive.files.data_files import check_footer, open_file
from holdfast.archive.scan.change_files import Shaper
from holdfast.archive.scan.engine import open_engine
from holdfast.archive.scan.keyless import alike
from holdfast.archive.scan.last_version import find_newest, snapshot_rows
from holdfast.archive.scan.net_changes import net_changes
from holdfast.archive.scan.projection import Projection, name_of
from holdfast.archive.scan.table_history import ALL
from holdfast.common.errors import DamagedError
from holdfast.common.field_ids import field_id, number_of
from holdfast.common.side_by_side import do_side_by_side
from locking.store import ObjectNotFound, StoreDenied, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import IO

    from duckdb import DuckDBPyConnection
    from pyarrow.fs import FileSystem

    from holdfast.archive.format.document import FileRecord
    from holdfast.archive.scan.table_history import Share, TableHistory
    from holdfast.storage import ObjectStore

BATCH_BYTES: Final = 16 << 20
_ASKING: Final = 8
"""Footers that are read at the same time: from a cloud, each takes a request's time."""

_MARK: Final = "the archive is damaged: "

_NOT_READ: Final = ("AWS Error", "Error reading bytes from file", StoreUnavailable.__name__, StoreDenied.__name__)
"""What pyarrow says of a store, or a disk, that gives no bytes; our own errors by name, where it reads through us."""

_OF_A_FILE: Final = "reading the stream registered as"
"""What DuckDB says before what pyarrow says of a file that it cannot read."""


def _format(*, ahead: bool) -> ds.ParquetFileFormat:
    options = ds.ParquetFragmentScanOptions(page_checksum_verification=True, pre_buffer=ahead)
    return ds.ParquetFileFormat(default_fragment_scan_options=options)


_LOCAL: Final = _format(ahead=False)
_REMOTE: Final = _format(ahead=True)


class _Rows(ds.FileSystemDataset):  # type: ignore[misc]
    """Parquet dataset that is read only a little ahead: by itself Arrow would hold many row groups."""

    def scanner(self, **options: Any) -> ds.Scanner:
        return super().scanner(batch_readahead=1, fragment_readahead=1, **options)


def _dataset(paths: Sequence[str], schema: pa.Schema, filesystem: FileSystem) -> ds.Dataset:
    kind = _LOCAL if isinstance(filesystem, LocalFileSystem) else _REMOTE
    return _Rows([kind.make_fragment(path, filesystem) for path in paths], schema, kind, filesystem)


@dataclass(frozen=True)
class _Spill:
    folder: Path

    def open_write(self, key: str) -> IO[bytes]:
        return (self.folder / key).open("wb")


class TableView:
    """Rows of one table at a position, as SQL over what is registered with a connection.

    Net changes are computed and kept in files beside; of the snapshot, only the columns and row groups that a query
    needs are read. Pages are checked by their checksums.

    :param name: no other view of the connection has it; letters and digits only.
    :param memory_bytes: for computing net changes.
    :param spill: an existing folder of this view alone; must stay while the view is used.
    """

    def __init__(
        self,
        connection: DuckDBPyConnection,
        store: ObjectStore,
        history: TableHistory,
        *,
        name: str,
        memory_bytes: int,
        spill: Path,
    ) -> None:
        self._sql = connection
        self._store = store
        self._history = history
        self._name = name
        self._columns = [name_of(field) for field in history.wanted]
        self._all = ", ".join(self._columns)
        self._counts = self._write_net(memory_bytes, spill)
        self._base = self._register_base()

    def _write_net(self, memory_bytes: int, spill: Path) -> dict[str, int]:
        """Compute and register net changes; return their counts by kind."""
        counts = {"T": 0, "I": 0, "U": 0, "D": 0}
        if not self._history.relevant():
            return counts
        extra = ["op", "u" if self._history.key else "n"]
        fields = [pa.field(name, field.type) for name, field in zip(self._columns, self._history.wanted, strict=True)]
        kinds = [pa.string(), pa.list_(pa.int32()) if self._history.key else pa.int64()]
        schema = pa.schema([*fields, *map(pa.field, extra, kinds)])

        def renamed() -> Iterator[pa.RecordBatch]:
            with open_engine(memory_bytes, spill) as engine:
                for batch in net_changes(engine, self._store, self._history, spill=spill):
                    for each in batch.column(len(self._columns)).value_counts().to_pylist():
                        counts[each["values"]] += each["counts"]
                    yield pa.RecordBatch.from_arrays(batch.columns, schema=schema)

        files = [spill / file.path for file in write_parquet(_Spill(spill), f"net-{self._name}", schema, renamed())]
        self._sql.register(f"net_{self._name}", _dataset([str(file) for file in files], schema, LocalFileSystem()))
        return counts

    def _register_base(self) -> str:
        """Register the snapshot, and return SQL of its rows in the wanted form."""
        files = self._history.base
        if not files:  # the table is followed from its first row on
            kinds = (field.type for field in self._history.wanted)
            none = pa.schema(list(zip(self._columns, kinds, strict=True))).empty_table()
            self._sql.register(f"base_{self._name}", none)
            return f"(select {self._all} from base_{self._name})"
        try:
            self._check_footers([file for file in files if file.offset is None])
            with open_file(self._store, files[0]) as file:
                written = pq.read_schema(file)
        except (pa.ArrowException, OSError) as error:
            raise DamagedError(f"{files[0].path} in {self._store.url} is damaged: {error}") from error
        self._sql.register(f"base_{self._name}", self._rows_of_base(files, written))
        ids = {field_id(field): field for field in self._history.wanted}
        row = {name_of(ids[number]): pa.repeat(value, 1).cast(ids[number].type)
               for number, value in self._history.missing.items() if number in ids}  # fmt: skip
        if row:
            self._sql.register(f"missing_{self._name}", pa.table(row))
        shape = Projection(written, self._history.wanted, self._history.missing)
        return f"(select {', '.join(shape.expressions(f'missing_{self._name}'))} from base_{self._name})"

    def _check_footers(self, files: Sequence[FileRecord]) -> None:
        """Verify the footers of files, and the sizes that they declare; pages are verified when they are read."""

        def check(file: FileRecord) -> None:
            open_parquet(check_footer(self._store, file), file.path)

        do_side_by_side(check, files, at_once=_ASKING)

    def _rows_of_base(self, files: Sequence[FileRecord], written: pa.Schema) -> ds.Dataset | pa.Table:
        if any(file.offset is not None for file in files):  # small
            return pa.Table.from_batches([each for file in files for each in read_batches(self._store, file)], written)
        filesystem, root = self._store.filesystem()
        return _dataset([f"{root}/{file.path}" if root else file.path for file in files], written, filesystem)

    def rows(self) -> str:
        """Return the SQL of all rows, with columns as `name_of` calls them."""
        if self._counts["T"]:
            return self._added()
        if not any(self._counts.values()):
            return f"select {self._all} from {self._base}"
        return " union all ".join(self._keyed() if self._history.key else self._keyless())

    def _added(self) -> str:
        copies = "" if self._history.key else ", unnest(range(n))"
        rows = f"select {self._all}{copies} from net_{self._name} where op = 'I'"
        return f"select {self._all} from ({rows})" if copies else rows

    def _keyed(self) -> list[str]:
        net = f"net_{self._name}"
        keys = [name_of(field) for field in self._history.fields(self._history.key)]
        on = " and ".join(f"n.{each} is not distinct from b.{each}" for each in keys)
        parts = [f"select {self._all} from {self._base} b where not exists (select 1 from {net} n where {on})"]
        if self._counts["I"]:
            parts.append(self._added())
        if self._counts["U"]:
            values = ", ".join(self._kept(field) for field in self._history.wanted)
            parts.append(
                f"select {values} from {net} n left join {self._matching('U', on)} m on {on.replace('b.', 'm.')} "
                f"where n.op = 'U' and case when m.here is null then {self._error('a changed row')} else true end"
            )
        return parts

    def _matching(self, op: str, on: str) -> str:
        """Return SQL of the snapshot's rows that match changes: a hash table is made of these, not of all."""
        changed = f"select 1 from net_{self._name} n where n.op = '{op}' and {on}"
        return f"(select true as here, b.* from {self._base} b where exists ({changed}))"

    @staticmethod
    def _kept(field: pa.Field) -> str:
        name = name_of(field)
        number = number_of(field_id(field))
        return f"case when list_contains(n.u, {number}) then m.{name} else n.{name} end as {name}"

    def _error(self, what: str) -> str:
        text = f"{_MARK}{what} of {self._history.label} is not in its snapshot".replace("'", "''")
        return f"error('{text}')::boolean"

    def _keyless(self) -> list[str]:
        net = f"(select *, row_number() over () as id from net_{self._name} where op = 'D')"
        on = " and ".join(
            f"{left} is not distinct from {right}"
            for field in self._history.wanted
            for (left, _), (right, _) in zip(
                alike(field, f"n.{name_of(field)}"), alike(field, f"b.{name_of(field)}"), strict=True
            )
        )
        parts = []
        if self._counts["D"]:
            gone = f"select 1 from net_{self._name} n where n.op = 'D' and {on}"
            parts.append(f"select {self._all} from {self._base} b where not exists ({gone})")
            values = ", ".join(f"any_value(n.{each}) as {each}" for each in self._columns)
            left = (
                f"select {values}, count(m.here) - any_value(n.n) as rest from {net} n "
                f"left join {self._matching('D', on)} m on {on.replace('b.', 'm.')} group by n.id "
                f"having case when rest < 0 then {self._error('a deleted row')} else rest > 0 end"
            )
            parts.append(f"select {self._all} from (select *, unnest(range(rest)) from ({left}))")
        else:
            parts.append(f"select {self._all} from {self._base}")
        if self._counts["I"]:
            parts.append(self._added())
        return parts


def as_of(
    store: ObjectStore, history: TableHistory, *, memory_bytes: int, spill: Path, share: Share = ALL
) -> Iterator[pa.RecordBatch]:
    """Yield all rows of the table at the position, in no order, in the wanted form.

    :param memory_bytes: DuckDB's, or that of the changes' keys; beside it are a file and a few row groups in Arrow.
    :param spill: an existing folder for what does not fit, which is empty again at the end.
    :param share: only this one; where rows cannot be shared out, the first one has all of them.
    :raises DamagedError: a file is not what was written, or changes do not fit the snapshot.
    """
    if not history.relevant():
        shaper = Shaper(history.wanted, history.missing)
        yield from map(shaper.apply, snapshot_rows(store, history, share))
    elif newest := find_newest(store, history, memory_bytes):
        yield from newest.batches(share)
    elif share.number == 0:
        yield from _by_engine(store, history, memory_bytes, spill)


def _by_engine(store: ObjectStore, history: TableHistory, memory_bytes: int, spill: Path) -> Iterator[pa.RecordBatch]:
    with (
        TemporaryDirectory(dir=spill, ignore_cleanup_errors=True) as folder,
        open_engine(memory_bytes, Path(folder)) as connection,
    ):
        try:
            view = TableView(connection, store, history, name="t", memory_bytes=memory_bytes, spill=Path(folder))
            for batch in connection.sql(view.rows()).to_arrow_reader(_rows_of(history)):
                arrays = [batch.column(index).cast(field.type) for index, field in enumerate(history.wanted)]
                yield pa.RecordBatch.from_arrays(arrays, schema=history.wanted)
        except (duckdb.Error, OSError, pa.ArrowException) as error:
            raise explain(error, store, history.base) from error


def _rows_of(history: TableHistory) -> int:
    """Return how many rows a batch may have, judged by their stored size."""
    files = (*history.base, *(file for record in history.changes for file in record.files))
    size = sum(file.size for file in files) / max(1, sum(file.rows for file in files))
    return int(min(65536, max(2048, BATCH_BYTES / max(1.0, size))))


def explain(error: Exception, store: ObjectStore, files: Sequence[FileRecord]) -> Exception:
    """Return the cause of an error from reading files: damage, an unreadable store, or the error itself."""
    said = str(error)
    if _MARK in said:
        return DamagedError(said.partition(_MARK)[2].splitlines()[0])
    for file in files:
        try:
            size = store.head(file.key).size
        except ObjectNotFound:
            return DamagedError(f"{file.key} is missing from {store.url}")
        if file.offset is None and size != file.size:
            return DamagedError(f"{file.path} in {store.url} has {size} bytes instead of {file.size}")
    not_read = any(each in said for each in _NOT_READ)
    said = " ".join(said.partition("Detail: Python exception")[0].split())
    of_a_file = _OF_A_FILE in said
    said = said.partition(" failed: ")[2] if of_a_file else said
    if not_read:
        return StoreUnavailable(f"could not read what is needed of {store.url}: {said}; try again")
    if of_a_file or (isinstance(error, OSError) and error.errno is None):  # those of this machine have a number
        return DamagedError(f"a file in {store.url} is damaged ({said}): find it by 'holdfast verify --deep'")
    return error
