"""An archive with a table `shop.orders` of three rows and two changes, and another table that nothing has changed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pyarrow as pa

from bench.compaction.paper_archive import make_column
from bench.support.blocks import make_block
from holdfast.archive import Archive, Change
from holdfast.archive.files.blocks import write_parquet
from holdfast.archive.files.data_files import write_bytes
from holdfast.archive.format.block import Block, Coverage, Mark, Stream
from holdfast.archive.format.document import TableRecord
from holdfast.common.lsn import show_position
from holdfast.postgresql.catalog.catalog import Catalog
from holdfast.postgresql.catalog.columns import Column
from holdfast.postgresql.catalog.table import Table
from holdfast.postgresql.values.stored_columns import schema_of
from holdfast.storage import ObjectStore
from tests.support.archives import histories
from tests.support.archives.histories import FIRST_FORM, SINCE, write_base, write_changes

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
END = 2000

ORDERS = (
    make_column(1, "id", "bigint", "int8", "int8out"),
    make_column(2, "day", "date", "date", "date_out"),
    make_column(3, "text", "text", "text", "textout"),
    make_column(4, "note", "text", "text", "textout"),
    make_column(6, "price", "numeric(10,2)", "numeric", "numeric_out", precision=10, scale=2),
    make_column(8, "twice", "bigint", "int8", "int8out", generated="s"),
)
PLACES = (make_column(1, "Name", "text", "text", "textout"), make_column(2, "at", "point", "point", "point_out"))


def _table(oid: int, schema: str, name: str, columns: tuple[Column, ...], **more: object) -> Table:
    plain = {"persistence": "p", "replica_identity": "d", "access_method": "heap", "parents": (), "bound": None,
             "owner": "shop", "key": ("id",), "pages": 1, "size": 8192, "estimated_rows": 3, "kind": "r"}  # fmt: skip
    return Table.model_validate({"oid": oid, "table_schema": schema, "name": name, "columns": columns, **plain, **more})


TABLES = (
    _table(1, "shop", "orders", ORDERS),
    _table(2, "shop", "Places", PLACES),
    _table(3, "old", "places", PLACES),
    _table(4, "shop", "all_places", PLACES, kind="p"),
    _table(5, "shop", "places_1", PLACES, parents=(4,)),
)


def order(number: int, text: str, price: str) -> histories.Row:
    return {1: number, 2: None, 100_002: "infinity", 3: text, 4: "n", 6: Decimal(price)}


def fill(store: ObjectStore) -> list[str]:
    """Add the blocks to an archive; return the files of the snapshot of `shop.orders`."""
    catalog = Catalog(
        database="shop", server_version=180006, encoding="UTF8", tables=TABLES, sequences=(), materialized_views=(),
        references=(), roles=(),
    )  # fmt: skip
    assert schema_of(ORDERS[:-1]).equals(FIRST_FORM, check_metadata=False)
    places = schema_of(PLACES)
    (file,) = write_parquet(
        store, "data/shop_db/2/snapshot/b/0", places, [pa.record_batch([["here"], ["(1,2)"]], schema=places)]
    )
    base = write_base(store, [order(1, "a", "1.00"), order(2, "b", "2.00"), order(3, "c", "3.00")], 1)
    others = [
        TableRecord(id=str(oid), table_schema=schema, name=name, rows=1, digest="", files=(file,))
        for oid, schema, name in ((2, "shop", "Places"), (3, "old", "places"), (5, "shop", "places_1"))
    ]
    record = write_bytes(store, "data/shop_db/schema/b/catalog-1.json", catalog.model_dump_json().encode())
    stream = Stream(
        slot="s",
        position=show_position(SINCE),
        publication="s",
        publication_oid=9,
        followed={1: 10, 2: 20, 3: 30, 5: 50},
    )
    position = show_position(SINCE)
    snapshot = make_block(position=position, at=NOON, tables=(base, *others)).model_copy(
        update={"catalog": record, "stream": stream.model_copy(update={"opened": True})}
    )
    changes = [
        histories.Change(0, 1000, 2, "U", {**order(1, "changed", "1.50"), 4: None}, (4,)),
        histories.Change(0, 1500, 2, "D", {1: 2, 100_002: "infinity"}),
        histories.Change(0, 1500, 4, "I", order(4, "new", "4.00")),
    ]
    later = NOON + timedelta(hours=1)
    added = Block(
        id="changes", kind="changes", run="run-2", source=snapshot.source, catalog=record, schema_dump=None,
        covers=Coverage(from_position=position, to_position=show_position(END), from_time=NOON, to_time=later),
        tables=write_changes(store, changes, block_of=10, file_of=10, key=(1, 2)), stream=stream,
        marks=(Mark(name="before delete", position=show_position(1400), at=later),),
    )  # fmt: skip
    archive = Archive.open(store)
    for block in (snapshot, added):
        change = Change(kind="backup", add=(block,))
        archive.add(lambda state, change=change: change, check=lambda: None, fence=None)  # type: ignore[misc]
    return [each.path for each in base.files]
