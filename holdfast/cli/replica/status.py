"""`holdfast replica status`: the position of each replica, as the coordination store records it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.replica.options import OfArchive, ask
from holdfast.cli.shared.options import Json, Store  # noqa: TC001 - typer reads it at run time
from holdfast.cli.shared.output import Output, show_rows
from holdfast.common.words import human_size, human_span
from holdfast.replication.log import status as standing
from holdfast.replication.log.errors import OldStoreError
from holdfast.replication.work.repair import look as look_at

if TYPE_CHECKING:
    from rich.console import Console

    from holdfast.archive.format.model import LogPlace


def status(
    look: Annotated[
        bool,
        typer.Option("--look/--no-look", help="Ask the replicas, too: whether each can be read, and how far it is."),
    ] = True,
    store: Store = None,
    archive: OfArchive = None,
    as_json: Json = False,
) -> None:
    """Print each replica's position, its activity, and whether it is lost: by the store, and by the replica itself."""
    output = Output(as_json=as_json)
    with ask(store, archive) as asked:
        chosen = asked.log().archive if archive else None
        statuses = asked.coordination.run(lambda c: standing.status(c, chosen))
        where = asked.coordination.url
        looks = [look_at(asked.coordination, status, asked.place) if look else None for status in statuses]
    contradictions = [look.contradiction for look in looks if look and look.contradiction]
    value = {"archives": [status.describe() for status in statuses]}
    for described, seen in zip(value["archives"], looks, strict=True):
        for one in described["replicas"]:
            one["look"] = _described(seen.places[one["name"]]) if seen else None
    output.result(value, lambda console: _show(console, value["archives"], where))
    for error in contradictions:
        output.say(f"holdfast: {error}")
    if contradictions:
        raise typer.Exit(OldStoreError.exit_code)


def _described(look: LogPlace | str) -> dict[str, Any]:
    return {"index": None, "problem": look} if isinstance(look, str) else {"index": look.index, "problem": None}


def _show(console: Console, archives: list[dict[str, Any]], where: str) -> None:
    for archive in archives:
        console.print(
            f"{archive['name']} ({archive['archive']}): {log_words(archive)}, in store {archive['store']}",
            markup=False,
        )
        head = ("replica", "url", "behind", "epoch", "state")
        show_rows(
            console, head, [(r["name"], r["url"], _behind(r), str(r["epoch"]), _state(r)) for r in archive["replicas"]]
        )
        for pending in archive["pending_quorums"]:
            have = ", ".join(pending["replicas"]) or "none"
            console.print(
                f"entry {pending['entry']}, a backup of {pending['source']}, waits for its quorum: "
                f"{len(pending['replicas'])} of {pending['size']} replicas ({have}), "
                f"for {pending['seconds_left']:.0f} s at most",
                markup=False,
            )
        for missing in archive["missing"]:
            console.print(
                f"entry {missing['entry']} stops replicas: no replica has its files, as is known for "
                f"{human_span(missing['for_s'])}",
                markup=False,
            )
        for lease in archive["sources"]:
            console.print(lease["words"], markup=False)
        if archive["leader"]:
            console.print(
                f"{archive['leader']} leads, for {archive['leader_lease_s']:.0f} s: compactions and truncations go "
                "through it",
                markup=False,
            )
    if not archives:
        console.print(f"no archive has replicas in {where}", markup=False)


def log_words(archive: dict[str, Any]) -> str:
    """Return the extent of a log in words, by the keys `head` and `log_start`."""
    if not archive["head"]:
        return "no entries yet"
    start = f"those from {archive['log_start']} on" if archive["log_start"] <= archive["head"] else "none any more"
    return f"entries up to {archive['head']}, of which the log has {start}"


def _behind(one: dict[str, Any]) -> str:
    if not one["entries_behind"]:
        return "nothing"
    return f"{one['entries_behind']:,} entries, {human_size(one['bytes_behind'])}, {one['seconds_behind']:.0f} s"


def _state(one: dict[str, Any]) -> str:
    said = [_lease(one)]
    if look := one["look"]:
        if look["problem"]:
            said.append(f"cannot be read: {look['problem']}")
        elif look["index"] != one["pointer"] - 1:
            said.append(f"has entry {look['index']}")
    elif one["silent_s"] is not None:
        pause = human_span(one["asked_again_s"])
        said.append(f"it has not answered for {human_span(one['silent_s'])}, and is asked again in {pause}")
    return "; ".join(said)


def _lease(one: dict[str, Any]) -> str:
    if one["recovers_from"]:
        return f"lost, being recovered from {one['recovers_from']}" + ("" if one["active"] else ", but that has died")
    if one["lost"]:
        return f"lost: {one['lost_reason']}"
    if one["active"]:
        return f"active, for {one['lease_s']:.0f} s"
    return f"inactive since {one['active_until']}" if one["active_until"] else "not active yet"
