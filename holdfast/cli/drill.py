"""`holdfast drill`: a trial restore of an archive, and the results of earlier ones."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.archive import Archive
from holdfast.cli.shared import places
from holdfast.cli.shared.jobs import run_job
from holdfast.cli.shared.options import Json, Url, Wait  # noqa: TC001 - typer reads them at run time
from holdfast.cli.shared.output import Output
from holdfast.cli.shared.request_options import takes
from holdfast.common.errors import UsageError
from holdfast.common.words import counted, human_span
from holdfast.drill import Drill, drills_of, new_run
from holdfast.drill.key_proof import by_copy
from holdfast.operations.requests.drill import DrillRequest
from holdfast.storage import open_url

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from holdfast.operations.archive_context import ArchiveContext
    from holdfast.postgresql.connection.address import Address


@takes(DrillRequest)
def drill(
    url: Url,
    request: DrillRequest,
    files: Annotated[
        list[Path] | None, typer.Option("--assert-file", metavar="FILE", help="A file that holds such a query.")
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(help="An empty database to restore into; default is a server of its own, removed at the end."),
    ] = None,
    history: Annotated[bool, typer.Option("--history", help="Show how the last drills went, and do none.")] = False,
    wait: Wait = 0,
    as_json: Json = False,
) -> None:
    """Restore a random restore point from the archive alone, compare it, and check its assertions."""
    output = Output(as_json=as_json)
    archive = places.resolve(url)
    if history:
        drills = drills_of(Archive.open(archive.open()).store, request.source)
        output.result({"drills": drills}, map(_history_line, drills) if drills else "no drills yet")
        return
    if to and request.keep_server:
        raise UsageError("--keep-server keeps the drill's own server: leave out --keep-server or --to")
    if request.trust_source and not to:
        raise UsageError("--trust-source needs --to: a drill's own server never runs source code as superuser")
    request = request.with_values(assertions=(*request.assertions, *map(_read, files or ())))
    request = request.filled(key=archive.settings.drill.key)
    value = _drill(by_copy(archive, request), request, places.target(url, to) if to else None, wait, output)
    output.result(value, _lines(value))


def _drill(
    archive: ArchiveContext, request: DrillRequest, to: Address | None, wait: float, output: Output
) -> dict[str, Any]:
    store = archive.open()
    with TemporaryDirectory(prefix="holdfast-drill-records-", ignore_cleanup_errors=True) as folder:
        work = Drill(
            store,
            request,
            archive.settings.drill,
            to=to,
            records=open_url(folder) if request.no_lock else None,
            say=output.say,
        )
        work.prepare()
        run = new_run(work.name)
        found = work.run(
            run,
            lambda address, restore: run_job(
                archive, restore, database=address, wait=wait, output=output, is_local=to is None
            ),
        )
    is_recorded = not (request.no_lock or store.signing.only_checks)
    return {"run": run if is_recorded else None, **found, "key": request.key}


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} cannot be read: {error}") from error


def _lines(value: dict[str, Any]) -> Iterator[str]:
    checked = len(value["assertions"])
    yield (
        f"{value['source']} as of {value['at']} (commit {value['commit']}): {counted(value['rows'], 'row')} of "
        f"{counted(value['tables'], 'table')}, equal to the archive, ready after {value['seconds']:.1f} s"
    )
    yield f"{checked} of {checked} assertions hold" if checked else "no assertions were given"
    yield f"the newest restorable moment, {value['newest']}, is {human_span(value['age_s'])} old"
    if value["key"]:
        yield f"the archive was opened by {value['key']}"
    if value["not_restored"]:
        yield f"not restored: {counted(value['not_restored'], 'object')}, listed above"
    yield f"recorded as {value['run']}" if value["run"] else "recorded nowhere: nothing was written to the archive"


def _history_line(drill: Mapping[str, Any]) -> str:
    what = f"{drill['source']} as of {drill['at']}" if "at" in drill else drill["run"]
    took = f", restored in {drill['seconds']:.1f} s" if "seconds" in drill else ""
    age = f", the newest moment was {human_span(drill['age_s'])} old" if "age_s" in drill else ""
    how = {"succeeded": "good", "failed": f"FAILED: {drill['error']}"}.get(drill["state"], "running, or killed")
    return f"{drill['ended']}  {what}{took}{age}: {how}"
