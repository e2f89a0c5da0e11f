"""`holdfast vacuum`: the deletion of files that the archive no longer needs. Works with Airflow down."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.archive import Archive, locks
from holdfast.archive.maintenance.vacuum import WAIT_S
from holdfast.archive.maintenance.vacuum import vacuum as vacuum_archive
from holdfast.cli.shared import places
from holdfast.cli.shared.options import Json, Url  # noqa: TC001 - typer reads them at run time
from holdfast.cli.shared.output import Output
from holdfast.cli.shared.request_options import takes
from holdfast.common.words import counted, human_size
from holdfast.operations.requests.vacuum import VacuumRequest
from holdfast.replication.work.replica_maintenance import vacuum_permit
from locking import Owner

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.archive.maintenance.vacuum import Vacuumed
    from holdfast.operations.archive_context import ArchiveContext

_SHOWN = 10

_FAILED = 1
_BUSY = 3


@takes(VacuumRequest)
def vacuum(
    url: Url,
    request: VacuumRequest,
    wait: Annotated[float, typer.Option(help="Seconds to wait for locks, and for readers.", min=0)] = WAIT_S,
    as_json: Json = False,
) -> None:
    """Delete unneeded files: those of removed blocks, and of killed backups."""
    output = Output(as_json=as_json)
    archive = places.resolve(url)
    vacuumed = _vacuum(archive, request.filled(grace=archive.settings.vacuum.grace), wait)
    value = vacuumed.describe()
    output.result(value, _lines(value))
    for problem in filter(None, (vacuumed.trouble, *vacuumed.busy)):
        output.say(problem)
    if code := _exit_code(vacuumed):
        files = counted(vacuumed.left + len(vacuumed.refused), "file")
        output.say(f"holdfast: not deleted: {files}. Fix the cause above, and run it again")
        raise typer.Exit(code)


def _vacuum(archive: ArchiveContext, request: VacuumRequest, wait: float) -> Vacuumed:
    store = archive.open()
    Archive.open(store)  # nothing is written, not even a lock, where there is no archive
    owner = Owner()
    with (
        nullcontext()
        if request.dry_run
        else locks.acquire(store, "vacuum", owner=owner, purpose="vacuum", wait=wait) as held,
        vacuum_permit(store, dry_run=request.dry_run, coordination=archive.coordination) as permit,
    ):
        return vacuum_archive(
            Archive.open(store),
            check=held.check if held else lambda: None,
            fence=held.fence if held else None,
            grace=request.span,
            orphans=request.orphans,
            dry_run=request.dry_run,
            wait=wait,
            owner=owner,
            permit=permit,
        )


def _exit_code(vacuumed: Vacuumed) -> int:
    """Return 1 where the store failed or refused, 3 where readers were in the way; a later run does the rest."""
    if vacuumed.trouble or not all(each.retained for each in vacuumed.refused):
        return _FAILED
    return _BUSY if vacuumed.left else 0


def _lines(value: dict[str, Any]) -> Iterator[str]:
    yield (
        f"{'would delete' if value['dry_run'] else 'deleted'} {counted(value['files'], 'file')} "
        f"({human_size(value['bytes'])}): removed blocks: {len(value['blocks'])}, "
        f"blocks of killed backups: {len(value['abandoned'])}"
    )
    if waiting := value["waiting"]:
        due = min(each["due"] for each in waiting)
        yield f"removed blocks within their grace: {len(waiting)}; the next is due at {due}"
    if awaited := value["awaited"]:
        names = sorted({name for each in awaited for name in each["replicas"]})
        yield f"removed blocks that replicas may still need: {len(awaited)}; waiting for a sync of {', '.join(names)}"
    if value["young"]:
        yield f"blocks that may still be written: {len(value['young'])}"
    for what, files in (("not deleted", value["refused"]), ("left alone, not ours", value["unknown"])):
        for file in files[:_SHOWN]:
            yield f"{what}: {file if isinstance(file, str) else file['reason']}"
        if len(files) > _SHOWN:
            yield f"{what}: {len(files) - _SHOWN:,} more"
