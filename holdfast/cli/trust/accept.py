"""`holdfast accept`: an archive's state that is older than what was seen of it. Works with Airflow down."""

from __future__ import annotations

from typing import Annotated

import typer

from holdfast.archive import Archive, Change, locks
from holdfast.archive.format.last_seen import LastSeen, place_of, read_seen
from holdfast.cli.shared import places
from holdfast.cli.shared.confirmation import Yes, confirm
from holdfast.cli.shared.options import Json, Url, Wait  # noqa: TC001 - typer reads them at run time
from holdfast.cli.shared.output import Output
from holdfast.common.errors import UsageError
from locking import Owner


def accept(
    url: Url,
    reason: Annotated[str, typer.Option(help="Why it is older, for whoever finds it in a year.")],
    yes: Yes = False,
    wait: Wait = 0,
    as_json: Json = False,
) -> None:
    """Accept that an archive was put back to an older state, or exchanged, after this machine saw it.

    A commit says so, and why: other machines that have seen no more than this one accept it by that. Asks for the
    archive's name first.
    """
    output = Output(as_json=as_json)
    store = places.archive_store(url)
    before, archive = read_seen(place_of(store)), Archive.open(store, unseen=True)
    if before is None or not archive.is_put_back(before):
        raise UsageError(f"{store.url} is no older than what this machine has seen of it: there is nothing to accept")
    now = LastSeen.of(archive.identity, archive.state)
    confirm(now.name, f"{now} counts from now on, and what {before} had more is given up", yes=yes, output=output)
    change = Change(kind="accepted", reason=reason, supersedes={before.archive: before.sequence})
    with locks.acquire(store, "hold", owner=Owner(), purpose="accepting an older state", wait=wait) as held:
        made = archive.add(lambda _: change, check=held.check, fence=held.fence)
    value = {"commit": made.sequence, "archive": now.archive, "superseded": before.model_dump(mode="json")}
    output.result(
        value,
        lambda console: console.print(
            f"commit {made.sequence} takes the place of {before}", markup=False, soft_wrap=True
        ),
    )
