"""`holdfast replica repair`: what is wrong with an archive's replicas, and the ways out of it."""

from __future__ import annotations

import shlex
from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.replica.options import OfArchive, ask
from holdfast.cli.replica.upkeep import brought, recover_replica, synced
from holdfast.cli.shared.options import Json, Store, Wait  # noqa: TC001 - typer reads them at run time
from holdfast.cli.shared.output import Output
from holdfast.common.errors import UsageError, sentence
from holdfast.operations.requests.recovery import RecoveryRequest
from holdfast.postgresql.connection.address import hide_passwords
from holdfast.replication.log.replicas import log_states
from holdfast.replication.work import membership
from holdfast.replication.work import rebuild_store as rebuilding
from holdfast.replication.work.repair import findings, unknown_archive
from holdfast.replication.work.sync import sync_replica

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from holdfast.cli.replica.options import Asked
    from holdfast.replication.log.replicas import LogState
    from holdfast.replication.work.repair import Finding, RepairStep, WayOut


def repair(
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what is wrong and what would be done, and change nothing.")
    ] = False,
    store: Store = None,
    archive: OfArchive = None,
    wait: Wait = 0,
    as_json: Json = False,
) -> None:
    """Say what is wrong with an archive's replicas, and for each way out what it keeps, what it loses, and the command.

    What loses nothing is done at once, and said before. All else is left to a person.
    """
    output = Output(as_json=as_json)
    given = (("--store", hide_passwords(store or "")), ("--archive", archive))
    options = [word for name, value in given if value for word in (name, value)]
    with ask(store, archive, create=True, only_look=True) as asked:
        log = _log(asked)
        if log is None:
            steps: list[dict[str, Any]] = []
            remaining = [unknown_archive(asked.coordination, asked.coordination.named, asked.place, asked.word)]
        else:
            steps, remaining = _repaired(asked, log, output, wait=wait, dry_run=dry_run)
    value = {
        "archive": log.archive if log else None,
        "name": log.name if log else asked.word,
        "steps": steps,
        "findings": [_described(finding, options) for finding in remaining],
        "dry_run": dry_run,
    }
    output.result(value, lambda console: _show(console, value))
    if remaining:
        raise typer.Exit(remaining[0].exit_code)


def _log(asked: Asked) -> LogState | None:
    """Return the log of the archive that is meant; None where the coordination store has none of it."""
    try:
        return asked.log()
    except UsageError:
        is_configured = asked.configured is not None and asked.configured.replicas
        if asked.coordination.run(log_states) and not is_configured:
            raise
        return None


def _repaired(
    asked: Asked, log: LogState, output: Output, *, wait: float, dry_run: bool
) -> tuple[list[dict[str, Any]], list[Finding]]:
    """Do what loses nothing, step by step, with a new look after each; return steps and remaining findings."""
    steps: list[dict[str, Any]] = []
    failed: dict[RepairStep, Exception] = {}
    tries: Counter[RepairStep] = Counter()
    while True:
        remaining = findings(asked.coordination, log.archive, asked.place, troubles=failed.values())
        # Again once only: where backups go on meanwhile, a replica may be behind at every look.
        chosen = next(
            (
                finding
                for finding in remaining
                if finding.step and finding.step not in failed and tries[finding.step] < 2
            ),
            None,
        )
        if chosen is None or chosen.step is None or dry_run:
            return steps, remaining
        step = chosen.step
        tries[step] += 1
        command = f"holdfast replica {' '.join(filter(None, (step.verb, step.replica)))}"
        output.say(f"{chosen.about}: {chosen.problem}. Now: {command}, which loses nothing")
        try:
            result = _run(asked, log, step, output, wait)
        except Exception as error:  # noqa: BLE001 - the others are repaired all the same
            failed[step] = error
            output.say(f"holdfast: {chosen.about}: {sentence(error)}")
            steps.append({"command": command, "result": None, "error": sentence(error)})
        else:
            output.say(result)
            if step.verb == "rebuild-store":
                failed.clear()  # what was refused by the older store
            steps.append({"command": command, "result": result, "error": None})


def _run(asked: Asked, log: LogState, step: RepairStep, output: Output, wait: float) -> str:
    if step.verb == "rebuild-store":
        urls = asked.coordination.named
        planned = rebuilding.prepare(asked.coordination, urls, word=log.archive, places=asked.place)
        rebuilt = rebuilding.rebuild(asked.coordination, planned, wait=wait, places=asked.place)
        source = rebuilt.survey.source.name
        return f"{log.name} goes on from {source}, which has entries up to {rebuilt.head}, in store {rebuilt.store}"
    row = asked.row(step.replica)
    if step.verb == "sync":
        executed = sync_replica(asked.coordination, log.archive, row, wait=wait, places=asked.place)
        return synced(executed.describe())
    if step.verb == "remove":
        unknown = membership.remove(asked.coordination, log.archive, row.name, wait=wait, places=asked.place)
        return unknown or f"{row.name} is no replica of {log.name} any more; what lies at {row.url} stays there"
    recovered = recover_replica(asked, log, row.name, output, RecoveryRequest(), wait=wait)
    aside = f": 'holdfast replica aside list {row.name}' shows them" if recovered.aside else ""
    return f"{row.name}: {brought(recovered.describe())}{aside}"


def _described(finding: Finding, options: Sequence[str]) -> dict[str, Any]:
    def value(way: WayOut) -> dict[str, Any]:
        command = shlex.join(("holdfast", "replica", *way.command, *options)) if way.command else None
        return {
            "keeps": way.keeps,
            "loses": way.loses or None,
            "command": command,
            "action": way.action or None,
            "alone": way.step is not None,
        }

    ways = [value(way) for way in finding.ways]
    return {"about": finding.about, "problem": finding.problem, "exit_code": finding.exit_code, "ways": ways}


def _show(console: Console, value: dict[str, Any]) -> None:
    if not value["findings"]:
        console.print(f"nothing is wrong with the replicas of {value['name']}", markup=False)
    for finding in value["findings"]:
        console.print(f"{finding['about']}: {finding['problem']}", markup=False)
        for way in finding["ways"]:
            console.print(f"  {way['command'] or way['action']}", markup=False)
            alone = "; so 'holdfast replica repair' does it" if way["alone"] else ""
            console.print(f"    keeps {way['keeps']}", markup=False)
            console.print(f"    loses {way['loses'] or 'nothing'}{alone}", markup=False)
