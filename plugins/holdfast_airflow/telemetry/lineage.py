"""Lineage of jobs between a database and an archive, for Airflow's OpenLineage provider where it is installed.

Names follow OpenLineage's conventions (https://openlineage.io/docs/spec/naming): a database is `postgres://host:port`
and its name, an archive the bucket and the prefix in it. Neither has a user or a password.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow.providers.openlineage.extractors import OperatorLineage
    from openlineage.client.event_v2 import Dataset
    from openlineage.client.facet_v2 import DatasetFacet, RunFacet

    from holdfast.sources.postgresql.connection.address import Address

_HERE = "localhost:5432"
"""In the place of a host, where an address names none: a socket of this machine."""


@dataclass(frozen=True)
class Moved:
    """What a job has moved.

    :param role: of the database: the source of a backup, or the target of a restore.
    :param archive: URL of the archive, or of the replica.
    :param summary: as the operator returns it.
    """

    role: Literal["source", "target"]
    database: Address
    archive: str
    summary: Mapping[str, Any]


def lineage_of(moved: Moved) -> OperatorLineage[Dataset, RunFacet]:
    """Return the lineage of a job; nothing was moved by a dry run."""
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
    database, archive = database_name(moved.database), archive_name(moved.archive)
    inputs, outputs = (database, archive) if moved.role == "source" else (archive, database)
    facets: dict[tuple[str, str], dict[str, DatasetFacet]] = {archive: {"version": version}}
    return OperatorLineage(
        inputs=[InputDataset(*inputs, facets=facets.get(inputs, {}))],
        outputs=[
            OutputDataset(*outputs, facets=facets.get(outputs, {}), outputFacets={"outputStatistics": statistics})
        ],
    )


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
