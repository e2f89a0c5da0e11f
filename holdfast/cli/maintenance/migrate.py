"""`holdfast migrate`: the migration of an archive to a newer format. Works with Airflow down."""

from __future__ import annotations

from typing import Any

from holdfast.archive import Archive, locks
from holdfast.archive.maintenance.migration import migrate as lift
from holdfast.cli.shared import places
from holdfast.cli.shared.options import Json, Url, Wait  # noqa: TC001 - typer reads them at run time
from holdfast.cli.shared.output import Output
from holdfast.cli.shared.request_options import takes
from holdfast.operations.requests.migration import MigrationRequest
from locking import Owner


@takes(MigrationRequest)
def migrate(url: Url, request: MigrationRequest, wait: Wait = 0, as_json: Json = False) -> None:
    """Migrate an archive to a newer format; its restore points are kept.

    Older releases that do not know the format refuse the archive from then on: upgrade them first.
    """
    output = Output(as_json=as_json)
    store = places.archive_store(url)
    Archive.open(store)  # nothing is written, not even a lock, where there is no archive
    with locks.acquire(
        store, "migration", owner=Owner(), purpose=f"migration to format {request.to}", wait=wait
    ) as held:
        value = lift(Archive.open(store), request.to, check=held.check, fence=held.fence)
    output.result(value, _sentence(value))


def _sentence(value: dict[str, Any]) -> str:
    if value["from"] == value["format"]:
        return f"nothing to do: the archive has format {value['format']}"
    return f"lifted from format {value['from']} to {value['format']} by commit {value['commits']}"
