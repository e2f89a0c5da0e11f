"""`holdfast replica give-up`: the removal of a log entry with files that no replica has any more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.replica.options import OfArchive, ask
from holdfast.cli.shared.options import Json, Store, Wait, Yes  # noqa: TC001 - typer reads them at run time
from holdfast.cli.shared.output import Output
from holdfast.common.words import named
from holdfast.replication.work import giving_up

if TYPE_CHECKING:
    from rich.console import Console

    from holdfast.replication.log.replicas import LogState
    from holdfast.replication.work.giving_up import GivingUp


def give_up(
    index: Annotated[int, typer.Argument(metavar="INDEX", min=1, help="Of the entry, as the sync that fails says it.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be given up, and change nothing.")] = False,
    store: Store = None,
    archive: OfArchive = None,
    yes: Yes = False,
    wait: Wait = 0,
    as_json: Json = False,
) -> None:
    """Give up an entry with files that no replica has any more, and all that was built on it.

    Refused while a replica that is not lost cannot be asked. The source's next backup names the gap. Asks for the
    archive's name first.
    """
    output = Output(as_json=as_json)
    with ask(store, archive) as asked:
        log = asked.log()
        planned = giving_up.prepare(asked.coordination, log.archive, index, places=asked.place)
        if dry_run:
            value = _value(log, planned, None)
        else:
            output.confirm(log.name, _consequence(log, planned), yes=yes)
            given_up, entry = giving_up.give_up(asked.coordination, log.archive, index, wait=wait, places=asked.place)
            value = _value(log, given_up, entry)
    output.result(value, lambda console: _show(console, value))


def _consequence(log: LogState, planned: GivingUp) -> str:
    entries = ", ".join(str(entry.index) for entry in planned.entries)
    lost = named(sorted(planned.ends))
    return f"{log.name} goes on without entries {entries} of its log: the backups of {lost} in them are lost"


def _value(log: LogState, plan: GivingUp, entry: int | None) -> dict[str, Any]:
    return {
        "archive": log.archive,
        "name": log.name,
        "missing": list(plan.missing),
        "given_up": [
            {"entry": entry.index, "kind": entry.change.kind, "blocks": [block.id for block in entry.change.add]}
            for entry in plan.entries
        ],
        "sources": sorted(plan.ends),
        "entry": entry,
        "dry_run": entry is None,
    }


def _show(console: Console, value: dict[str, Any]) -> None:
    console.print(f"at no place: {', '.join(value['missing'])}", markup=False)
    said = ", ".join(f"{entry['entry']} ({entry['kind']})" for entry in value["given_up"])
    would = "would be" if value["dry_run"] else "are"
    console.print(f"of {value['name']} {would} given up: entries {said}", markup=False)
    if not value["dry_run"]:
        console.print(
            f"entry {value['entry']} says so. Now: holdfast replica sync --all, then back up "
            f"{', '.join(value['sources'])}",
            markup=False,
        )
