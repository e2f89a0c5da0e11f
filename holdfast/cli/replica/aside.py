"""`holdfast replica aside`: blocks that only one replica had before its recovery."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.replica.options import OfArchive, Replica, ask
from holdfast.cli.shared import places
from holdfast.cli.shared.options import Json, Store, Wait  # noqa: TC001 - typer reads them at run time
from holdfast.cli.shared.output import Output, show_rows
from holdfast.common.errors import UsageError
from holdfast.common.signing import ArchiveKeys
from holdfast.common.words import human_size
from holdfast.replication.work import set_aside

if TYPE_CHECKING:
    from rich.console import Console

aside_app = typer.Typer(
    name="aside",
    help="Blocks that only one replica had, and that its recovery has set aside: list, bring back, drop.",
    no_args_is_help=True,
)


@aside_app.command(name="list")
def list_aside(name: Replica, store: Store = None, archive: OfArchive = None, as_json: Json = False) -> None:
    """List the blocks that are set aside at a replica; changes nothing."""
    output = Output(as_json=as_json)
    with ask(store, archive) as asked:
        row, log = asked.row(name), asked.log()
        blocks = set_aside.listed(asked.place(row.url), log.archive, name)
    value = {"archive": log.archive, "name": log.name, "replica": name, "aside": [block.describe() for block in blocks]}
    output.result(value, lambda console: _show(console, value))


def _show(console: Console, value: dict[str, Any]) -> None:
    if not value["aside"]:
        console.print(f"nothing is set aside at {value['replica']}", markup=False)
        return
    head = ("block", "source", "kind", "restorable to", "size", "by commit", "files")
    rows = [
        (
            block["block"],
            block["source"],
            block["kind"],
            block["restorable_to"],
            human_size(block["bytes"]),
            str(block["commit"]),
            f"{block['missing_files']} are missing" if block["missing_files"] else "are there",
        )
        for block in value["aside"]
    ]
    show_rows(console, head, rows)


@aside_app.command(name="restore")
def restore_aside(
    name: Replica,
    into: Annotated[str, typer.Option(metavar="URL", help="An empty place for an archive of its own.")],
    commit: Annotated[
        int | None,
        typer.Option(metavar="N", help="What this commit has set aside, as 'list' shows it. Default is the newest."),
    ] = None,
    store: Store = None,
    archive: OfArchive = None,
    wait: Wait = 0,
    as_json: Json = False,
) -> None:
    """Make an archive of what the replica had before its recovery, of the sources whose blocks are set aside.

    It is restored from and queried as any archive. Stopped, it goes on when run again.
    """
    output = Output(as_json=as_json)
    with ask(store, archive) as asked:
        row, log = asked.row(name), asked.log()
        origin = asked.place(row.url)
        target = places.archive_store(into, like=ArchiveKeys(origin.key, origin.signing))
        brought = set_aside.bring_back(origin, target, log.archive, name, commit=commit, wait=wait)
    value = {
        "archive": brought.archive,
        "url": target.url,
        "commit": brought.commit,
        "blocks": list(brought.blocks),
        "others": list(brought.others),
        "left_out": list(brought.left_out),
        "files": brought.files,
        "bytes": brought.size,
    }
    words = (
        f"{target.url} is an archive of its own with {len(brought.blocks)} blocks that were set aside, and "
        f"{len(brought.others)} that stood beside them; {brought.files:,} files ({human_size(brought.size)}) copied. "
        f"Now: holdfast points {target.url}"
    )
    if brought.left_out:
        output.say(f"left out, since their files are not at {row.url} any more: block {', '.join(brought.left_out)}")
    output.result(value, lambda console: console.print(words, markup=False))


@aside_app.command(name="drop")
def drop_aside(
    name: Replica,
    blocks: Annotated[
        list[str] | None, typer.Argument(metavar="[BLOCK]...", help="Their ids, as 'list' shows them.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="All that are set aside at this replica.")] = False,
    store: Store = None,
    archive: OfArchive = None,
    wait: Wait = 0,
    as_json: Json = False,
) -> None:
    """Give blocks that are set aside to the next vacuum of their replica: they are gone then."""
    output = Output(as_json=as_json)
    if bool(blocks) == every:
        raise UsageError("say either which blocks are to be dropped or --all")
    with ask(store, archive) as asked:
        row, log = asked.row(name), asked.log()
        chosen = blocks or [block.block.id for block in set_aside.listed(asked.place(row.url), log.archive, name)]
        if not chosen:
            raise UsageError(f"nothing is set aside at {name}")
        commit, dropped = set_aside.drop(asked.coordination, log.archive, row, chosen, places=asked.place, wait=wait)
    value = {"archive": log.archive, "name": log.name, "replica": name, "commit": commit, "dropped": list(dropped)}
    words = f"commit {commit}: {len(dropped)} blocks dropped; their files are deleted by 'holdfast vacuum {row.url}'"
    output.result(value, lambda console: console.print(words, markup=False))
