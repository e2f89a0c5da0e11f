"""Lineage of jobs, for Airflow's OpenLineage provider.

Names follow OpenLineage's conventions (https://openlineage.io/docs/spec/naming): a database is `postgres://host:port`
and its name, a table that and `database.schema.table`, an archive the bucket and the prefix in it. None has a user or a
password.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import urlsplit

from holdfast.common.errors import HoldfastError, sentence
from holdfast.config.archives_yaml import find_archive
from locking.one_line import line_logger
from locking.store import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from airflow.providers.openlineage.extractors import OperatorLineage
    from airflow.sdk import Asset
    from openlineage.client.event_v2 import Dataset
    from openlineage.client.facet_v2 import DatasetFacet, OutputDatasetFacet, RunFacet

    from holdfast.postgresql.catalog.table import Table
    from holdfast.postgresql.connection.address import Address
    from holdfast.storage import ObjectStore

log = line_logger(__name__)

_HERE = "localhost:5432"
"""In the place of a host, where an address names none: a socket of this machine."""


@dataclass(frozen=True)
class Moved:
    """What a job has moved.

    :param role: of the database: the source of a backup, or the target of a restore.
    :param source: whose database, in the archive; None: its only one.
    :param tables: globs of what a restore was to bring; none: all.
    :param maps: other names of that, as `--map` takes them.
    """

    role: Literal["source", "target"]
    database: Address
    store: ObjectStore
    summary: Mapping[str, Any]
    source: str | None = None
    tables: Sequence[str] = ()
    maps: Sequence[str] = ()


def lineage_of(moved: Moved) -> OperatorLineage[Dataset, RunFacet]:
    """Return the lineage of a job: the database, then its tables where the archive has them."""
    from airflow.providers.openlineage.extractors import OperatorLineage
    from openlineage.client.event_v2 import InputDataset, OutputDataset
    from openlineage.client.facet_v2 import dataset_version_dataset, output_statistics_output_dataset

    summary = moved.summary
    if summary.get("dry_run"):
        return OperatorLineage()
    statistics = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
        rowCount=summary.get("rows"), size=summary.get("bytes")
    )
    version = dataset_version_dataset.DatasetVersionDatasetFacet(datasetVersion=str(summary.get("commit")))
    archive, database = archive_name(moved.store.url), database_name(moved.database)
    tables = [(database[0], f"{database[1]}.{table.name}", _schema(table)) for table in _tables(moved)]
    facets: dict[str, DatasetFacet] = {"version": version}
    figures: dict[str, OutputDatasetFacet] = {"outputStatistics": statistics}
    if moved.role == "source":
        read: list[Dataset] = [
            InputDataset(*database),
            *(InputDataset(space, name, facets=facet) for space, name, facet in tables),
        ]
        return OperatorLineage(inputs=read, outputs=[OutputDataset(*archive, facets=facets, outputFacets=figures)])
    written = [OutputDataset(space, name, facets=facet) for space, name, facet in tables]
    return OperatorLineage(
        inputs=[InputDataset(*archive, facets=facets)],
        outputs=[OutputDataset(*database, outputFacets=figures), *written],
    )


def dataset_of(asset: Asset, _: object) -> Dataset | None:
    """Return an asset's archive, for Airflow's OpenLineage provider; None where it is unknown."""
    from openlineage.client.event_v2 import Dataset

    try:
        return Dataset(*archive_name(find_archive(urlsplit(asset.uri).netloc).location()))
    except HoldfastError as error:
        log.warning("the lineage does not name %s: %s", asset.uri, sentence(error))
        return None


def _tables(moved: Moved) -> list[MovedTable]:
    try:
        if moved.role == "source":
            return tables_read(moved.store, moved.summary)
        return tables_written(moved.store, moved.summary, source=moved.source, chosen=moved.tables, maps=moved.maps)
    except (HoldfastError, StoreError) as error:  # the work is done, and the database is named
        log.warning("the lineage names no tables: %s", sentence(error))
        return []


def _schema(table: MovedTable) -> dict[str, DatasetFacet]:
    from openlineage.client.facet_v2 import schema_dataset

    fields = [
        schema_dataset.SchemaDatasetFacetFields(name=name, type=kind, ordinal_position=number)
        for number, (name, kind) in enumerate(table.columns, start=1)
    ]
    return {"schema": schema_dataset.SchemaDatasetFacet(fields=fields)} if fields else {}


def database_name(address: Address) -> tuple[str, str]:
    """Return namespace and name of a database."""
    host, name = address.location or (_HERE, address.database)
    return f"postgres://{host}", name


def archive_name(url: str) -> tuple[str, str]:
    """Return namespace and name of an archive."""
    parts = urlsplit(url)
    if parts.scheme in ("", "file"):
        return "file", parts.path
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}", parts.path.strip("/") or "/"


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
    """Return the first tables by name that a backup read."""
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
    """Return the first tables by name that a restore wrote."""
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
