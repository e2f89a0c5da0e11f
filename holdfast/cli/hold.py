"""`holdfast hold`: restore points that stay regardless of the rules. Works with Airflow down."""

from __future__ import annotations

import getpass
import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.archive import Archive, locks
from holdfast.archive.format.document import iso
from holdfast.archive.history.holds import describe_hold
from holdfast.archive.maintenance.hold_requests import add_hold, remove_hold
from holdfast.cli.shared import places
from holdfast.cli.shared.options import Json, Url, Wait  # noqa: TC001 - typer reads them at run time
from holdfast.cli.shared.output import Output, table_lines
from holdfast.replication.work.replica_backup import opened_for_backup
from locking import Owner

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.archive.format.model import Hold

hold_app = typer.Typer(
    name="hold", help="Restore points that no truncation removes until the hold is removed.", no_args_is_help=True
)

Reason = Annotated[str, typer.Option(help="The reason, for readers in a year.")]


@hold_app.command(name="add")
def add(
    url: Url,
    at: Annotated[
        str, typer.Option(help="latest, a time (2026-03-01T12:00:00Z, -10min), a mark, commit:N, or lsn:X/Y.")
    ],
    reason: Reason,
    source: Annotated[str | None, typer.Option(help="The source; needed where the archive has several.")] = None,
    owner: Annotated[str | None, typer.Option(help="The person responsible; default is you, as user@host.")] = None,
    wait: Wait = 0,
    as_json: Json = False,
) -> None:
    """Hold a restore point: no truncation removes it."""
    output = Output(as_json=as_json)
    owner = owner if owner is not None else f"{getpass.getuser()}@{socket.gethostname()}"
    with _locked(url, "hold add", wait) as (archive, check):
        hold, commit = add_hold(archive, source, at, reason=reason, owner=owner, check=check)
    value = {"commit": commit.sequence, **describe_hold(archive.state, hold)}
    output.result(value, f"commit {commit.sequence}: {_sentence(hold)}")


@contextmanager
def _locked(url: str, purpose: str, wait: float) -> Iterator[tuple[Archive, Callable[[], None]]]:
    """Open an archive under the lock of holds, and yield it with what raises once that is lost."""
    resolved = places.resolve(url)
    store = resolved.open()
    Archive.open(store)  # nothing is written, not even a lock, where there is no archive
    with locks.acquire(store, "hold", owner=Owner(), purpose=purpose, wait=wait) as held:
        coordination = resolved.coordination
        yield opened_for_backup(store, check=held.check, wait=wait, coordination=coordination), held.check


def _sentence(hold: Hold) -> str:
    return f"hold {hold.id} keeps {hold.source} at {iso(hold.at)}, lsn:{hold.position}"


@hold_app.command(name="list")
def list_holds(url: Url, as_json: Json = False) -> None:
    """List the holds, and whether the point of each can be restored."""
    output = Output(as_json=as_json)
    state = Archive.open(places.archive_store(url)).state
    holds = sorted(state.holds.values(), key=lambda hold: (hold.source, hold.at))
    values = [describe_hold(state, hold) for hold in holds]
    output.result({"holds": values}, _lines(values) if values else "no holds")


def _lines(values: list[dict[str, Any]]) -> Iterator[str]:
    head = ("hold", "source", "at", "position", "owner", "reason")
    return table_lines(head, [[str(hold[name]) for name in head[:-1]] + [_reason(hold)] for hold in values])


def _reason(value: dict[str, Any]) -> str:
    return value["reason"] if value["restorable"] else f"{value['reason']} (can no longer be restored)"


@hold_app.command(name="remove")
def remove(
    url: Url,
    hold: Annotated[str, typer.Argument(metavar="ID", help="As 'hold list' shows it.")],
    reason: Reason,
    wait: Wait = 0,
    as_json: Json = False,
) -> None:
    """Remove a hold: from then on only the rules keep its point."""
    output = Output(as_json=as_json)
    with _locked(url, "hold remove", wait) as (archive, check):
        removed, commit = remove_hold(archive, hold, reason=reason, check=check)
    value = {"commit": commit.sequence, "reason_removed": reason, **describe_hold(archive.state, removed)}
    output.result(value, f"commit {commit.sequence}: removed: {_sentence(removed)}")
