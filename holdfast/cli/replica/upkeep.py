"""`holdfast replica sync`, `trim` and `recover`: the upkeep of replicas and of their log."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.replica.options import AnyReplica, Asked, OfArchive, ask
from holdfast.cli.shared.jobs import run_job
from holdfast.cli.shared.options import Json, Store, Wait  # noqa: TC001 - typer reads them at run time
from holdfast.cli.shared.output import Output
from holdfast.cli.shared.request_options import takes
from holdfast.common.errors import UsageError, exit_code_of, sentence
from holdfast.common.units import parse_span
from holdfast.common.words import human_size
from holdfast.config.archives_model import GAP_AFTER
from holdfast.operations.requests.recovery import RecoveryRequest
from holdfast.operations.requests.sync import SyncRequest
from holdfast.operations.requests.trim import TrimRequest
from holdfast.replication.log import trimming
from holdfast.replication.log.consistency_check import silent_among
from holdfast.replication.log.replicas import lost, mark_lost, replicas
from holdfast.replication.work import recovery
from holdfast.replication.work.sync import sync_of_result, sync_replica

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.console import Console

    from holdfast.replication.log.replicas import LogState, ReplicaRow
    from holdfast.replication.work.recovery import Recovered
    from holdfast.replication.work.replica import Synced
    from holdfast.storage import ObjectStore


def sync(
    name: AnyReplica = None,
    every: Annotated[
        bool, typer.Option("--all", help="Each replica that is not lost; goes on where one fails.")
    ] = False,
    store: Store = None,
    archive: OfArchive = None,
    gap_after: Annotated[
        str,
        typer.Option(metavar="TIME", help="Give up an entry whose files no replica has had for so long, or 'never'."),
    ] = f"{GAP_AFTER // timedelta(hours=1)}h",
    spark: Annotated[
        bool, typer.Option("--spark", help="Spread the copies over Spark, for a replica that lacks much.")
    ] = False,
    wait: Wait = 0,
    as_json: Json = False,
) -> None:
    """Execute the log entries that a replica lacks: fetch the files of each, and commit it."""
    output = Output(as_json=as_json)
    after = None if gap_after == "never" else parse_span(gap_after)
    _one_or(name, every, "--all")
    with ask(store, archive) as asked:
        log = asked.log()
        execute = partial(_in_spark, asked, wait, output) if spark else None
        rows = asked.coordination.run(lambda c: replicas(c, log.archive))
        for row in rows if every else ():
            if row.is_lost:
                output.say(f"not synced: {sentence(lost(row))}")
        chosen = [row for row in rows if not row.is_lost] if every else [asked.row(name or "")]
        silent = silent_among(asked.coordination, log.archive, chosen, asked.place) if every else {}

        def work(row: ReplicaRow) -> dict[str, Any]:
            if row.name in silent:
                raise silent[row.name]
            return sync_replica(
                asked.coordination,
                log.archive,
                row,
                wait=wait,
                gap_after=after,
                places=asked.place,
                execute=execute,
            ).describe()

        _for_all(chosen, work, synced, output, go_on=every)


def _one_or(name: str | None, every: bool, option: str) -> None:
    if (name is None) != every:
        raise UsageError(f"say either the name of a replica or {option}")


def _for_all(
    rows: Sequence[ReplicaRow],
    work: Callable[[ReplicaRow], dict[str, Any]],
    words: Callable[[dict[str, Any]], str],
    output: Output,
    *,
    go_on: bool,
) -> None:
    """Run an action for each replica and print the results; exits with the code of the first failure."""
    values: list[dict[str, Any]] = []
    codes: list[int] = []
    for row in rows:
        try:
            values.append(work(row))
        except Exception as error:
            if not go_on:
                raise
            codes.append(exit_code_of(error))
            output.say(f"holdfast: {row.name}: {sentence(error)}")
            values.append({"replica": row.name, "error": sentence(error), "exit_code": codes[-1]})

    def show(console: Console) -> None:
        for value in values:
            if "error" not in value:
                console.print(words(value), markup=False)

    output.result({"replicas": values}, show)
    if codes:
        raise typer.Exit(codes[0])


def _in_spark(asked: Asked, wait: float, output: Output, place: ObjectStore) -> Synced:
    return sync_of_result(run_job(asked.context(place.url), SyncRequest(), wait=wait, output=output))


def synced(value: dict[str, Any]) -> str:
    indexes = ", ".join(str(index) for index in value["given_up"])
    given_up = f"given up, since no replica had their files: entries {indexes}; " if indexes else ""
    if not value["entries"]:
        return f"{value['replica']}: {given_up}at entry {value['index']}, nothing to do"
    return (
        f"{value['replica']}: {given_up}at entry {value['index']}; {value['entries']:,} executed, "
        f"{value['files']:,} files ({human_size(value['bytes'])}) fetched"
    )


@takes(TrimRequest)
def trim(
    request: TrimRequest,
    store: Store = None,
    archive: OfArchive = None,
    as_json: Json = False,
) -> None:
    """Remove entries of the log that no replica needs any more."""
    output = Output(as_json=as_json)
    with ask(store, archive) as asked:
        log = asked.log()
        trimmed = trimming.trim(
            asked.coordination,
            log.archive,
            min_keep=request.min_keep,
            max_keep=request.max_keep,
            dry_run=request.dry_run,
            places=asked.place,
        )
    value = {
        "archive": log.archive,
        "name": log.name,
        "log_start": trimmed.start,
        "removed": trimmed.removed,
        "lost": list(trimmed.lost),
        "waits_for": list(trimmed.waits_for),
        "spared": list(trimmed.spared),
        "not_asked": [replica.describe() for replica in trimmed.not_asked],
        "dry_run": request.dry_run,
    }
    output.result(value, lambda console: console.print(_trimmed(value), markup=False))


def _trimmed(value: dict[str, Any]) -> str:
    would = "would begin" if value["dry_run"] else "begins"
    said = [f"{value['removed']:,} entries; the log {would} at {value['log_start']}"]
    said += [f"{', '.join(value['waits_for'])} still needs that one"] if value["waits_for"] else []
    if value["spared"]:
        said.append(f"{', '.join(value['spared'])} is waited for longer than --max-keep, as its loss would win little")
    if value["lost"]:
        said.append(f"lost by it: {', '.join(value['lost'])}; the recovery of each reads all that it has")
    return f"{'would remove' if value['dry_run'] else 'removed'} {'; '.join(said)}"


@takes(RecoveryRequest)
def recover(
    request: RecoveryRequest,
    name: AnyReplica = None,
    every: Annotated[bool, typer.Option("--lost", help="Each replica that is lost; goes on where one fails.")] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="Take files that are there in their size as whole, without reading them.")
    ] = False,
    store: Store = None,
    archive: OfArchive = None,
    wait: Wait = 0,
    as_json: Json = False,
) -> None:
    """Recover a lost replica from another one: only missing files are copied; stopped, it goes on when run again."""
    output = Output(as_json=as_json)
    _one_or(name, every, "--lost")
    if request.damaged and every:
        raise UsageError("--damaged is of one replica: name it")
    with ask(store, archive) as asked:
        log = asked.log()
        if request.damaged:
            marked = asked.row(name or "").name
            asked.coordination.run(lambda c: mark_lost(c, log.archive, marked, "files at its place are damaged"))
        rows = asked.coordination.run(lambda c: replicas(c, log.archive))
        chosen = [row for row in rows if row.is_lost] if every else [asked.row(name or "")]
        if not chosen:
            output.say("no replica is lost")

        def work(row: ReplicaRow) -> dict[str, Any]:
            return recover_replica(
                asked, log, row.name, output, request.with_values(deep=not quick), wait=wait
            ).describe()

        _for_all(chosen, work, lambda value: f"{value['replica']}: {brought(value)}", output, go_on=every)


def recover_replica(
    asked: Asked,
    log: LogState,
    name: str,
    output: Output,
    request: RecoveryRequest,
    *,
    wait: float,
) -> Recovered:
    """Announce and run the recovery of a replica."""
    source = request.source
    output.say(f"recovering {name}{f' from {source}' if source else ''}: files that are missing are copied")
    return recovery.recover(
        asked.coordination, log.archive, name, source=source, deep=request.deep, wait=wait, places=asked.place
    )


def brought(value: dict[str, Any]) -> str:
    """Return the sentence that reports a recovery, from its JSON."""
    aside = f"; {len(value['aside'])} blocks that only it had are kept aside" if value["aside"] else ""
    return (
        f"{value['files']:,} files ({human_size(value['bytes'])}) copied from {value['from']}, {value['kept']:,} were "
        f"there; at entry {value['index']}{aside}"
    )
