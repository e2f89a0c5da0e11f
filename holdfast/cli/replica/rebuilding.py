"""`holdfast replica rebuild-store`: the update log, rebuilt from the replicas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.replica.options import OfArchive, ask
from holdfast.cli.shared.options import Json, Store, Wait  # noqa: TC001 - typer reads them at run time
from holdfast.cli.shared.output import Output, show_rows
from holdfast.common.errors import RefusedError, UsageError
from holdfast.replication.work import rebuild_store as rebuilding
from holdfast.replication.work.survey import ReadableReplica

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from holdfast.cli.replica.options import Asked
    from holdfast.replication.work.rebuild_store import Rebuilding
    from holdfast.replication.work.survey import ReplicaFate


def rebuild_store(
    replica: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=URL",
            help="A replica and its place; repeat it for each. Those in archives.yaml, and those that the store still "
            "knows, come to them.",
        ),
    ] = None,
    source: Annotated[
        str | None,
        typer.Option("--from", metavar="NAME", help="Go on from this one. Default is the one that is furthest."),
    ] = None,
    without: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Leave this replica out: it is lost. For one that cannot be read."),
    ] = None,
    lose_acknowledged: Annotated[
        bool,
        typer.Option(
            "--lose-acknowledged", help="Give up what only others have, also backups that a quorum has acknowledged."
        ),
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Even where the store agrees with all replicas.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would become of each replica, and change nothing.")
    ] = False,
    store: Store = None,
    archive: OfArchive = None,
    wait: Wait = 0,
    as_json: Json = False,
) -> None:
    """Rebuild the update log from the replicas, where the store is gone or was restored from an older copy.

    Nothing is deleted. Stopped, it goes on when run again.
    """
    output = Output(as_json=as_json)
    with ask(store, archive, create=True, only_look=dry_run) as asked:
        planned = rebuilding.prepare(
            asked.coordination,
            _urls(asked, replica or []),
            word=None if asked.configured else asked.word,
            source=source,
            without=without or (),
            lose_acknowledged=lose_acknowledged,
            places=asked.place,
        )
        if dry_run:
            _show_plan(planned, output, force=force)
            return
        if planned.survey.objections:
            show_rows(output.words, *_table(planned.survey.fates))
        rebuilt = rebuilding.rebuild(asked.coordination, planned, force=force, wait=wait, places=asked.place)
    value = _value(rebuilt)
    output.result(value, lambda console: _show(console, rebuilt, value))


def _urls(asked: Asked, said: Sequence[str]) -> dict[str, str]:
    urls = dict(asked.coordination.named)
    for word in said:
        name, separator, url = word.partition("=")
        if not (name and separator and url):
            raise UsageError(f"--replica wants NAME=URL, such as near=/srv/near/shop, and not {word!r}")
        urls[name] = url
    return urls


def _show_plan(planned: Rebuilding, output: Output, *, force: bool) -> None:
    """Print the plan of a rebuild; exits as the rebuild would."""
    value = _value(planned)
    output.result(value, lambda console: _show(console, planned, value))
    try:
        planned.check(force=force)
    except RefusedError as error:
        output.say(f"holdfast: {error}")
        raise typer.Exit(error.exit_code) from error


def _value(plan: Rebuilding) -> dict[str, Any]:
    return {
        "archive": plan.archive,
        "name": plan.name,
        "store": plan.store or None,
        "needed": plan.is_needed,
        "from": plan.survey.source.name,
        "head": plan.head,
        "replicas": [_fate_value(fate) for fate in plan.survey.fates],
        "unsettled": list(plan.unsettled),
        "given_up": plan.given_up,
        "dry_run": not plan.store,
    }


def _fate_value(fate: ReplicaFate) -> dict[str, Any]:
    return {
        "name": fate.replica.name,
        "url": fate.replica.url,
        "index": _index(fate),
        "lost": bool(fate.lost),
        "lost_reason": fate.lost or None,
        "objection": fate.objection or None,
    }


def _index(fate: ReplicaFate) -> int | None:
    return fate.replica.place.index if isinstance(fate.replica, ReadableReplica) else None


def _table(fates: Sequence[ReplicaFate]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    def row(fate: ReplicaFate) -> tuple[str, ...]:
        index = _index(fate)
        becomes = f"lost: {fate.lost}" if fate.lost else "goes on"
        return fate.replica.name, fate.replica.url, "?" if index is None else str(index), becomes

    return ("replica", "url", "has entries up to", "becomes"), [row(fate) for fate in fates]


def _show(console: Console, plan: Rebuilding, value: dict[str, Any]) -> None:
    show_rows(console, *_table(plan.survey.fates))
    would = "would go on" if value["dry_run"] else "goes on"
    where = f", in store {value['store']}" if value["store"] else ""
    console.print(
        f"{plan.name} {would} from {value['from']}, which has entries up to {plan.head}{where}",
        markup=False,
    )
    if value["unsettled"]:
        console.print(
            f"these count though their quorum had not succeeded: block {', '.join(value['unsettled'])}", markup=False
        )
    if value["given_up"]:
        console.print(
            f"{value['given_up']:,} entries of the old log, which no replica has executed, are given up: back up again",
            markup=False,
        )
    if not value["dry_run"] and any(fate.lost for fate in plan.survey.fates):
        console.print("now: holdfast replica recover --lost", markup=False)
