"""Leadership of an archive, held by one replica under a lease.

The archive is compacted and truncated through its leader alone: two that join the same blocks would do so in vain. Who
leads next begins a new epoch, and appends of the one before are refused. That an entry is *valid* does not depend on
it: an entry that removes blocks is appended only to the log that it was planned by. One transaction each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import sqlalchemy as sa

from holdfast.common.errors import BusyError, RefusedError
from holdfast.replication.log import schema
from holdfast.replication.log.errors import EpochOverError
from holdfast.replication.log.replicas import change_archive, renew
from holdfast.replication.log.store import clock

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from holdfast.replication.log.replicas import Acting

LEASE_S = 900.0
"""So long after its last renewal a leader keeps other replicas from leading: what its death costs."""

_A = schema.archives.c


@dataclass(frozen=True)
class Leader:
    """Present or last leader; `name` is "" for none, `until` its lease's end by the store's clock (s since 1970)."""

    name: str
    epoch: int
    until: float


def leader(connection: Connection, archive: str) -> Leader:
    """Return the present or last leader of an archive."""
    query = sa.select(_A.leader, _A.leader_epoch, _A.leader_until).where(_A.archive == archive)
    return Leader(*connection.execute(query).one())


def lead(connection: Connection, acting: Acting, *, lease: float = LEASE_S) -> int:
    """Begin or continue to lead an archive, renew the replica's lease, and return the epoch.

    Processes of one replica share its leadership; its locks keep them apart.

    :raises BusyError: another replica leads.
    """
    renew(connection, acting)
    now = clock(connection)
    there = leader(connection, acting.archive)
    is_ours = there.name == acting.name
    if there.name and not is_ours and there.until > now:
        raise BusyError(
            f"replica {there.name} leads: compactions and truncations go through it, for {there.until - now:.0f} s "
            "from now at least. Start this one there, or later"
        )
    epoch = there.epoch if is_ours else there.epoch + 1
    change_archive(connection, acting.archive, leader=acting.name, leader_epoch=epoch, leader_until=now + lease)
    return epoch


def go_on(connection: Connection, acting: Acting, epoch: int, *, lease: float = LEASE_S) -> None:
    """Renew the leases of a leadership and of its replica."""
    renew(connection, acting)
    check_leader(connection, acting, epoch, removes=False)
    change_archive(connection, acting.archive, leader_until=clock(connection) + lease)


def resign(connection: Connection, acting: Acting, epoch: int) -> None:
    """Give the leadership up, if it is still held."""
    there = leader(connection, acting.archive)
    if (there.name, there.epoch) == (acting.name, epoch):
        change_archive(connection, acting.archive, leader="", leader_until=0.0)


def check_leader(connection: Connection, acting: Acting, epoch: int | None, *, removes: bool) -> None:
    """Check in the append's transaction that an entry has the leadership that it needs.

    :param epoch: of the leadership that it was made under; None: under none.
    :raises EpochOverError: another replica has begun to lead.
    :raises RefusedError: it removes blocks, and was made under no leadership.
    """
    if epoch is None:
        if removes:
            raise RefusedError(
                f"replica {acting.name} does not lead, and only the leader removes blocks: nothing was changed. Use "
                "'holdfast truncate' or 'holdfast compact', which begin to lead first"
            )
        return
    there = leader(connection, acting.archive)
    if (there.name, there.epoch) != (acting.name, epoch):
        raise EpochOverError(
            f"replica {acting.name} led in epoch {epoch}, and {there.name or 'no replica'} leads by now (epoch "
            f"{there.epoch}): nothing was changed. Start again"
        )
