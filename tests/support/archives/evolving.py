"""An archive of a source whose tables evolve between its backups; their rows are told of, and are not there."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from bench.compaction.paper_archive import make_column
from bench.support.blocks import make_block
from holdfast.archive import Archive, Change
from holdfast.archive.files.data_files import write_bytes
from holdfast.archive.format.block import Block, Coverage, DefinitionChange, Stream
from holdfast.archive.format.block_ref import Placed
from holdfast.archive.format.document import FileRecord, TableRecord
from holdfast.archive.history import target_resolution
from holdfast.archive.history.recovery_target import RecoveryTarget
from holdfast.common.lsn import PG_CLASS, show_position
from holdfast.postgresql.catalog.catalog import Catalog
from holdfast.postgresql.catalog.columns import Column
from holdfast.postgresql.catalog.table import Table
from holdfast.postgresql.dump.dump_entries import DumpEntry
from holdfast.postgresql.dump.dump_objects import DumpObjects
from tests.support.stores.memory_store import MemoryStore

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
SOURCE = "shop_db"

ID = make_column(1, "id", "bigint", "int8", "int8out")
WORD = make_column(2, "word", "text", "text", "textout")
PRICE = make_column(3, "price", "numeric(10,2)", "numeric", "numeric_out", precision=10, scale=2)


def column(of: Column, /, **more: object) -> Column:
    """Return a column that is another in some way."""
    return Column.from_dict({**of.to_dict(), **more})


def table(oid: int, *columns: Column, **more: Any) -> Table:
    """Return a table `shop.t<oid>` with a key `id`."""
    plain = {
        "table_schema": "shop", "name": f"t{oid}", "kind": "r", "persistence": "p", "replica_identity": "d",
        "access_method": "heap", "parents": (), "bound": None, "owner": "shop", "key": ("id",), "pages": 1,
        "size": 8192, "estimated_rows": 3,
    }  # fmt: skip
    return Table.model_validate({**plain, "oid": oid, "columns": columns or (ID, WORD), **more})


def catalog(*tables: Table, **more: Any) -> Catalog:
    plain = {"sequences": (), "materialized_views": (), "references": (), "roles": ()}
    told = {"database": "shop", "server_version": 180006, "encoding": "UTF8", "tables": tables}
    return Catalog.model_validate({**plain, **told, **more})


def changed(
    of: Table, first: int, last: int | None = None, *, rows: int = 1, key: tuple[int, ...] = (1,)
) -> TableRecord:
    """Return what a block tells of changes of a table."""
    return TableRecord(
        id=str(of.oid), table_schema=of.table_schema, name=of.name, rows=rows, digest="", files=(), key=key,
        first=show_position(first), last=show_position(last or first),
        columns=tuple(each.to_dict() for each in of.columns),
    )  # fmt: skip


class Evolving:
    """Blocks of a source, each with the objects at its end; the stream of changes begins at 0x100."""

    def __init__(self, *, tells: bool = False) -> None:
        """:param tells: the log tells of changes of definitions."""
        self.store = MemoryStore()
        self.archive = Archive.create(self.store, name="shop")
        self.followed: dict[int, int] = {}
        self.not_followed: dict[str, str] = {}
        self._definitions = "told" if tells else ""
        self._end = 0x100
        self._minute = 0

    def full(
        self, at: int, objects: Catalog, *, rows: int = 10, only: Iterable[int] | None = None, **more: Any
    ) -> Placed:
        """Add a snapshot: each table has so many rows.

        :param only: the tables whose rows it has, by oid.
        """
        tables = [each for each in objects.tables if each.has_rows and (only is None or each.oid in only)]
        records = tuple(
            TableRecord(
                id=str(each.oid), table_schema=each.table_schema, name=each.name, rows=rows, digest="", files=()
            )
            for each in tables
        )
        self.followed |= {each.oid: each.oid * 10 for each in tables if each.label not in self.not_followed}
        block = make_block(
            identity=self._next(), source=SOURCE, position=show_position(at), at=self._now, tables=records
        )
        stream = self._stream(opened=not self.archive.state.blocks)
        return self._add(block.model_copy(update={**self._objects(block.id, objects), "stream": stream, **more}))

    def changes(self, to: int, objects: Catalog, *records: TableRecord, **more: Any) -> Placed:
        """Add changes up to a position."""
        since, before = self._end, self._now
        name = self._next()
        covers = Coverage(
            from_position=show_position(since), to_position=show_position(to), from_time=before, to_time=self._now
        )
        stream = self._stream()
        self._end = to
        block = make_block(identity=name, source=SOURCE, tables=records)
        told = {"kind": "changes", "covers": covers, "stream": stream, **self._objects(name, objects)}
        return self._add(block.model_copy(update={**told, **more}))

    def moment(self, position: int) -> RecoveryTarget:
        """Return the recovery target at a position."""
        return target_resolution.resolve(self.archive.state, self.store, SOURCE, f"lsn:{show_position(position)}")

    def file(self, name: str, body: bytes) -> FileRecord:
        """Store a file of a block."""
        return write_bytes(self.store, f"data/{SOURCE}/schema/{name}", body)

    @property
    def _now(self) -> datetime:
        return NOON + timedelta(minutes=self._minute)

    def _next(self) -> str:
        self._minute += 1
        return f"b{self._minute}"

    def _objects(self, name: str, objects: Catalog) -> dict[str, Any]:
        body = objects.model_dump_json().encode()
        return {
            "catalog": self.file(f"{name}/catalog-1.json", body),
            "schema_version": hashlib.sha256(body).hexdigest(),
        }

    def _stream(self, *, opened: bool = False) -> Stream:
        return Stream(
            slot="s", position=show_position(self._end), opened=opened, publication="s", publication_oid=1,
            followed=dict(self.followed), not_followed=dict(self.not_followed), definitions=self._definitions,
        )  # fmt: skip

    def _add(self, block: Block) -> Placed:
        change = Change(kind="backup", add=(block,))
        self.archive.add(lambda state: change, check=lambda: None, fence=None)
        return self.archive.state.blocks[block.id]


def dumped(*tables: Table) -> DumpObjects:
    return DumpObjects(
        [
            DumpEntry(number, "pre-data", "TABLE", PG_CLASS, each.oid, each.table_schema, each.name, (), each.form)
            for number, each in enumerate(tables, 1)
        ]
    )


ReadDump = Callable[[FileRecord], DumpObjects]


def touched_between(
    touched: dict[int, tuple[int, ...]], *, dropped: bool = False
) -> tuple[Evolving, RecoveryTarget, ReadDump]:
    """Let two tables get another column each; return a moment in between, and a reader of dumps.

    :param touched: the tables, by position.
    :param dropped: they lose it instead, the first one behind the moment.
    """
    made = Evolving(tells=True)
    before = (table(1, form="1"), table(2, form="2"))
    after = (table(1, ID, WORD, PRICE, form="1'"), table(2, ID, WORD, PRICE, form="2'"))
    change = changed(after[0], 0x270 if dropped else 0x1F0, rows=3)
    before, after = (after, before) if dropped else (before, after)
    first, second = (made.file(f"dump-of-{number}", b"%d" % number) for number in range(2))
    changes = tuple(
        DefinitionChange(position=f"0/{position:X}", objects=tuple((PG_CLASS, each) for each in tables))
        for position, tables in touched.items()
    )
    made.full(0x100, catalog(*before), schema_dump=first)
    made.changes(
        0x300,
        catalog(*after),
        change,
        schema_dump=second,
        defined=tuple(each.position for each in changes),
        definition_changes=changes,
    )
    return made, made.moment(0x200), {first: dumped(*before), second: dumped(*after)}.__getitem__
