"""`holdfast accept`: a state of an archive that a person has to answer for. Works with Airflow down."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.archive import Archive, Change, locks
from holdfast.archive.format.last_seen import LastSeen, note_seen, place_of, read_seen
from holdfast.archive.void_number import void as void_number
from holdfast.cli.shared import places
from holdfast.cli.shared.options import Json, Url, Wait, Yes  # noqa: TC001 - typer reads them at run time
from holdfast.cli.shared.output import Output
from holdfast.common.errors import UsageError
from holdfast.common.words import named
from locking import Owner

if TYPE_CHECKING:
    from holdfast.storage import ObjectStore


def accept(
    url: Url,
    reason: Annotated[str, typer.Option(help="The reason, for readers in a year.")],
    void: Annotated[
        int | None,
        typer.Option(metavar="NUMBER", help="Give up the number of an empty commit that no copy of the archive has."),
    ] = None,
    yes: Yes = False,
    wait: Wait = 0,
    as_json: Json = False,
) -> None:
    """Accept that an archive was put back to an older state, or exchanged, after this machine saw it.

    A commit records that, and the reason; other machines that have seen no more accept it, too. Asks for the archive's
    name first.

    With --void, an empty object in the place of the next commit never counts: a write that failed because the store was
    full leaves one. It must be older than three minutes; it stays, and its number is not used.
    """
    output = Output(as_json=as_json)
    store = places.archive_store(url)
    if void is not None:
        _void(store, void, reason, yes=yes, wait=wait, output=output)
        return
    before, archive = read_seen(place_of(store)), Archive.open(store, unseen=True)
    if before is None or not archive.seen_now.is_put_back(before):
        raise UsageError(f"{store.url} is no older than what this machine has seen: there is nothing to accept")
    now = LastSeen.of(archive.identity, archive.state)
    output.confirm(now.name, f"{now} counts from now on; the later state, {before}, is given up", yes=yes)
    change = Change(kind="accepted", reason=reason, supersedes={before.archive: before.sequence})
    with locks.acquire(store, "hold", owner=Owner(), purpose="accepting an older state", wait=wait) as held:
        made = archive.add(lambda _: change, check=held.check, fence=held.fence)
    note_seen(place_of(store), LastSeen.of(archive.identity, archive.state), instead_of=before)
    value = {"commit": made.sequence, "archive": now.archive, "superseded": before.model_dump(mode="json")}
    output.result(value, f"commit {made.sequence} takes the place of {before}")


def _void(store: ObjectStore, number: int, reason: str, *, yes: bool, wait: float, output: Output) -> None:
    name = Archive.open(store, recovering=True, before_damage=True).identity.name
    output.confirm(name, f"number {number} of {name} will never count, even if a commit appears there", yes=yes)
    with locks.acquire(store, "voiding", owner=Owner(), purpose=f"voiding number {number}", wait=wait) as held:
        made = void_number(store, number, reason=reason, check=held.check, fence=held.fence)
    value = {"commit": made.sequence, "archive": made.archive, "voided": list(made.voided)}
    words = f"commit {made.sequence} voids {named([str(each) for each in made.voided])}: the archive goes on"
    output.result(value, words)
