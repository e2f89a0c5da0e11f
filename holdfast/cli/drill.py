"""`holdfast drill`: a trial restore of an archive, and the results of earlier ones."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.archive import Archive
from holdfast.cli.shared import places
from holdfast.cli.shared.jobs import run_job
from holdfast.cli.shared.options import Json, NoLock, Url, Wait  # noqa: TC001 - typer reads them at run time
from holdfast.cli.shared.output import Output
from holdfast.common.errors import UsageError
from holdfast.common.signing import ArchiveKeys
from holdfast.common.units import parse_span
from holdfast.common.words import human_span
from holdfast.drill import Drill, drills_of, new_run
from holdfast.drill.key_proof import check_copy
from holdfast.operations.requests.restore import RestoreRequest
from holdfast.storage import open_place

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import Console

    from holdfast.postgresql.connection.address import Address


def drill(
    url: Url,
    source: Annotated[
        str | None, typer.Option(help="Whose backup; needed where the archive holds several sources.")
    ] = None,
    at: Annotated[
        str | None, typer.Option(help="The moment to restore, as for a restore; default is a random one.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Choose the same random moment again.")] = None,
    asserted: Annotated[
        list[str] | None,
        typer.Option("--assert", metavar="SQL", help="A query that must return one row with the value true."),
    ] = None,
    files: Annotated[
        list[Path] | None, typer.Option("--assert-file", metavar="FILE", help="A file that holds such a query.")
    ] = None,
    newest_within: Annotated[
        str | None,
        typer.Option(
            metavar="SPAN",
            help="Fail where the newest restorable moment is older than that (1h); default is archives.yaml's.",
        ),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(help="An empty database to restore into; default is a server of its own, removed at the end."),
    ] = None,
    trust_source: Annotated[
        bool,
        typer.Option("--trust-source", help="With --to: let code of the source run with a superuser's rights there."),
    ] = False,
    keep_server: Annotated[bool, typer.Option("--keep-server", help="Let that server run on, to look at it.")] = False,
    key: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Open the archive by a copy of its key, and record that it is right; default is archives.yaml's.",
        ),
    ] = None,
    history: Annotated[bool, typer.Option("--history", help="Show how the last drills went, and do none.")] = False,
    no_lock: NoLock = False,
    wait: Wait = 0,
    as_json: Json = False,
) -> None:
    """Restore a random restore point from the archive alone, compare it, and check its assertions."""
    output = Output(as_json=as_json)
    archive = places.resolve(url)
    settings = archive.settings.drill
    copy = None if history else key or settings.key
    if copy:
        check_copy(copy, archive.keys.key)
        archive = places.resolve(url, keys=ArchiveKeys(copy))
    store = archive.open()
    if history:
        Archive.open(store)
        done = drills_of(store, source)
        output.result({"drills": done}, lambda console: _show_history(console, done))
        return
    if to and keep_server:
        raise UsageError("--keep-server is about the drill's own server: leave out one of --keep-server and --to")
    if trust_source and not to:
        raise UsageError("--trust-source is about the database of --to: a drill's own server needs to trust nobody")
    work = Drill(store, source, at, seed, keep_server=keep_server, trust_source=trust_source, say=output.say)
    within = newest_within or settings.newest_within
    work.newest_within = parse_span(within) if within else None
    work.proves_key = copy is not None
    work.to = places.target(url, to) if to else None
    queries = [*(asserted or ()), *map(_read, files or ())]

    def restore(address: Address, arguments: Sequence[str]) -> Mapping[str, Any]:
        request = RestoreRequest.from_arguments(arguments)
        return run_job(archive, request, database=address, wait=wait, output=output, is_local=not to)

    with TemporaryDirectory(prefix="holdfast-drill-records-", ignore_cleanup_errors=True) as folder:
        work.records = open_place(folder) if no_lock else None
        work.prepare()
        work.asserted = [*settings.of(work.name), *queries]
        run = new_run(work.name)
        found = work.run(run, restore)
    is_recorded = not (no_lock or store.signing.only_checks)
    value = {"run": run if is_recorded else None, **found, "key": copy}
    output.result(value, lambda console: _show(console, value))


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} cannot be read: {error}") from error


def _show(console: Console, value: dict[str, Any]) -> None:
    checked = len(value["assertions"])
    lines = [
        f"{value['source']} as of {value['at']} (commit {value['commit']}): {value['rows']:,} rows of "
        f"{value['tables']} tables, equal to the archive, ready after {value['seconds']:.1f} s",
        f"{checked} of {checked} assertions hold" if checked else "no assertions were given",
        f"the newest restorable moment, {value['newest']}, is {human_span(value['age_s'])} old",
        *([f"the archive was opened by {value['key']}"] if value["key"] else []),
        *([f"not restored: {value['not_restored']} objects, named above"] if value["not_restored"] else []),
        f"recorded as {value['run']}" if value["run"] else "recorded nowhere: nothing was written to the archive",
    ]
    for line in lines:
        console.print(line, markup=False)


def _show_history(console: Console, done: Sequence[dict[str, Any]]) -> None:
    for each in done:
        console.print(_line(each), markup=False)
    if not done:
        console.print("no drills yet")


def _line(drill: Mapping[str, Any]) -> str:
    what = f"{drill['source']} as of {drill['at']}" if "at" in drill else drill["run"]
    took = f", restored in {drill['seconds']:.1f} s" if "seconds" in drill else ""
    age = f", the newest moment was {human_span(drill['age_s'])} old" if "age_s" in drill else ""
    how = {"succeeded": "good", "failed": f"FAILED: {drill['error']}"}.get(drill["state"], "under way, or was killed")
    return f"{drill['ended']}  {what}{took}{age}: {how}"
