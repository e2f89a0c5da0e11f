"""`holdfast backup`: a full or an incremental backup of a source."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from holdfast.cli.shared import places
from holdfast.cli.shared.jobs import run_job
from holdfast.cli.shared.options import Json, Url, Wait  # noqa: TC001 - typer reads them at run time
from holdfast.cli.shared.output import Output
from holdfast.cli.shared.request_options import takes
from holdfast.operations.backup_run import confirm
from holdfast.operations.requests.backup import BackupRequest
from holdfast.operations.sentences import backup_sentence


@takes(BackupRequest)
def backup(
    url: Url,
    source: Annotated[str, typer.Option(help="A name in archives.yaml, or postgresql://user@host:port/database.")],
    request: BackupRequest,
    restart_stream: Annotated[
        bool,
        typer.Option(
            "--restart-stream",
            help="Begin a new stream of changes with a full backup, where no incremental backup can continue. Times "
            "between the last backup and this one cannot be restored.",
        ),
    ] = False,
    wait: Wait = 0,
    as_json: Json = False,
) -> None:
    """Back up a database: all of it in one snapshot, or the changes since the last backup."""
    output = Output(as_json=as_json)
    value = _run(url, source, request.with_values(restart_stream="now" if restart_stream else None), wait, output)
    output.result(value, backup_sentence(value))


def back_up_changes(url: str, source: str, *, wait: float, output: Output) -> dict[str, Any]:
    """Make an incremental backup, report it, and return its summary.

    :raises ReportedError: it failed, or tables wait.
    """
    value = _run(url, source, BackupRequest(kind="changes"), wait, output)
    output.say(backup_sentence(value))
    return value


def _run(url: str, source: str, request: BackupRequest, wait: float, output: Output) -> dict[str, Any]:
    """Run a backup, wait until it counts, and return its summary."""
    name, known, address = places.source(url, source)
    archive = places.resolve(url)
    settings = archive.settings
    request = request.with_values(source=name).configured(known, settings.quorum, settings.quorum_timeout)
    if name in settings.sources:
        request = request.with_values(new_source=True)
    value = run_job(archive, request, database=address, source=name, wait=wait, output=output)
    if request.quorum_request is not None:
        value = confirm(archive.open(), address, value, say=output.say, coordination=archive.coordination)
    for left_out in value.get("not_included", []):
        output.say(f"not included: {left_out}")
    if value.get("snapshot_note"):
        output.say(f"the log position is approximate: {value['snapshot_note']}")
    return value
