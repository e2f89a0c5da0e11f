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
from holdfast.common.words import human_size
from holdfast.operations.requests.vacuum import VacuumRequest
from holdfast.replication.work.replica_maintenance import vacuum_permit
from locking import Owner

if TYPE_CHECKING:
    from rich.console import Console

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
    """Delete files that nothing needs: those of removed blocks, and leftovers of killed backups."""
    output = Output(as_json=as_json)
    archive = places.resolve(url)
    done = _vacuum(archive, request.filled(grace=archive.settings.vacuum.grace), wait)
    value = done.describe()
    output.result(value, lambda console: _show(console, value))
    for said in (done.trouble, *done.busy):
        if said:
            output.say(said)
    if code := _exit_code(done):
        output.say(f"holdfast: {done.left + len(done.refused)} files are left: run it again once that is mended")
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


def _exit_code(done: Vacuumed) -> int:
    """Return 1 where the store failed or forbade something, 3 where readers were in the way.

    A backup at work, or files that an object lock keeps, are nothing to be called for: a later run comes to them.
    """
    if done.trouble or not all(each.retained for each in done.refused):
        return _FAILED
    return _BUSY if done.left else 0


def _show(console: Console, value: dict[str, Any]) -> None:
    def line(text: str) -> None:
        console.print(text, markup=False)

    verb = "would delete" if value["dry_run"] else "deleted"
    line(
        f"{verb} {value['files']:,} files ({human_size(value['bytes'])}): removed blocks: {len(value['blocks'])}, "
        f"blocks of killed backups: {len(value['abandoned'])}"
    )
    if waiting := value["waiting"]:
        due = min(each["due"] for each in waiting)
        line(f"removed blocks whose grace is not over: {len(waiting)}; the next is due at {due}")
    if awaited := value["awaited"]:
        names = sorted({name for each in awaited for name in each["replicas"]})
        line(
            f"removed blocks that replicas may still need: {len(awaited)}; waiting for {', '.join(names)} to be synced"
        )
    if value["young"]:
        line(f"blocks that may still be written, or were until lately: {len(value['young'])}")
    for what, each in (("not deleted", value["refused"]), ("left alone, not ours", value["unknown"])):
        for found in each[:_SHOWN]:
            line(f"{what}: {found if isinstance(found, str) else found['reason']}")
        if len(each) > _SHOWN:
            line(f"{what}: {len(each) - _SHOWN:,} more")
