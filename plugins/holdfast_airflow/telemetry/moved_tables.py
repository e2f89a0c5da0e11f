"""Tables that a job has moved, by the archive."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from holdfast.postgresql.catalog.table import Table
    from holdfast.storage import ObjectStore

MOST_TABLES: Final = 200
"""Tables of one job that are named, at most: an event of lineage is one message."""

MOST_COLUMNS: Final = 5_000
"""Columns of one job that are named, at most; tables behind these have a name and no columns."""


@dataclass(frozen=True)
class MovedTable:
    """One table.

    :param name: `schema.table`, in the database.
    :param columns: name and declared type of each, in their order; empty where they are unknown.
    """

    name: str
    columns: tuple[tuple[str, str], ...] = ()


def tables_read(store: ObjectStore, summary: Mapping[str, Any]) -> list[MovedTable]:
    """Return the first tables by name that a backup read.

    :param summary: as the operator returns it.
    :raises HoldfastError: the archive does not say it.
    """
    from holdfast.archive import Archive
    from holdfast.archive.files.data_files import read_file
    from holdfast.postgresql.catalog.catalog import Catalog

    placed = Archive.open(store).state.blocks.get(str(summary.get("block")))
    if placed is None:  # nothing had changed, or it was joined with others meanwhile
        return []
    block = placed.block
    catalog = Catalog.from_bytes(read_file(store, block.catalog), block.catalog.path)
    by_id = {str(table.oid): table for table in catalog.tables}
    return _named({record.label: by_id.get(record.id) for record in block.tables})


def tables_written(
    store: ObjectStore, summary: Mapping[str, Any], *, source: str | None, chosen: Iterable[str], maps: Iterable[str]
) -> list[MovedTable]:
    """Return the first tables by name that a restore wrote.

    :param source: in the archive; None: its only one.
    :param chosen: globs of the tables; none: all.
    :param maps: new names, as `--map` takes them.
    :raises HoldfastError: the archive does not say it.
    """
    from holdfast.archive import Archive
    from holdfast.archive.history.restore_points import only_source
    from holdfast.point_in_time.schema_choice import resolve
    from holdfast.point_in_time.target_contents import catalog_of
    from holdfast.postgresql.restore.plan.name_maps import NameMaps

    state = Archive.open(store).state
    moment = resolve(state, store, only_source(state, source), f"commit:{summary['commit']}")
    catalog = catalog_of(store, moment)
    renamed = NameMaps.parse(maps).with_partitions(catalog.tables)
    left_out = {*summary.get("not_restored", ()), *summary.get("skipped_existing", ())}
    tables = catalog.matching(list(chosen))
    return _named(
        {
            ".".join(renamed.of_table(table.table_schema, table.name)): table
            for table in tables
            if table.label not in left_out
        }
    )


def _named(tables: Mapping[str, Table | None]) -> list[MovedTable]:
    return list(_bounded(sorted(tables.items(), key=lambda item: item[0])[:MOST_TABLES]))


def _bounded(tables: Iterable[tuple[str, Table | None]]) -> Iterator[MovedTable]:
    remaining = MOST_COLUMNS
    for name, table in tables:
        columns = tuple((column.name, column.type) for column in table.columns) if table else ()
        remaining -= len(columns)
        yield MovedTable(name, columns if remaining >= 0 else ())
