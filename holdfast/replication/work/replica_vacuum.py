"""Guard of a replica's files during its vacuum. One transaction each.

A removed block's files stay until every other replica has executed the entry that removed it: one that is behind
fetches the block itself first, and one that is being recovered copies what its source had when it took that one's
pointer. Files that no block names may be those of an entry that is being executed: only what no entry of the log names
is abandoned, and that is said in the store first, where every append asks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from holdfast.archive.maintenance.vacuum import Permit
from holdfast.replication.log import schema
from holdfast.replication.log.replicas import guard, replicas
from holdfast.replication.log.store import clock

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from sqlalchemy import Connection

    from holdfast.archive.archive import Archive
    from holdfast.archive.format.state import Removed
    from holdfast.replication.log.replicas import Acting
    from holdfast.replication.log.store import CoordinationStore


def waits_for(connection: Connection, archive: str, index: int) -> tuple[str, ...]:
    """Return the replicas that have not executed an entry; a lost one counts while it is recovered."""
    rows = [row for row in replicas(connection, archive) if not row.is_lost or row.recovers_from]
    return tuple(row.name for row in rows if row.pointer <= index)


def unnamed(connection: Connection, archive: str, blocks: Collection[str]) -> frozenset[str]:
    """Return the blocks that no entry of the log adds."""
    b = schema.blocks.c
    named = connection.execute(sa.select(b.block).where(b.archive == archive, b.block.in_(list(blocks)))).scalars()
    return frozenset(blocks) - frozenset(named)


def abandon(connection: Connection, acting: Acting, blocks: Collection[str]) -> frozenset[str]:
    """Record that blocks must not be added any more, but for those that an entry adds; return the others."""
    guard(connection, acting)
    going = unnamed(connection, acting.archive, blocks)
    a = schema.abandoned.c
    abandoned = connection.execute(sa.select(a.block).where(a.archive == acting.archive, a.block.in_(going))).scalars()
    now = clock(connection)
    for block in sorted(going - frozenset(abandoned)):
        row = {"archive": acting.archive, "block": block, "replica": acting.name, "at": now}
        connection.execute(schema.abandoned.insert(), row)
    return going


class ReplicaPermit(Permit):
    """Vacuum permit of a replica; `acting` is None for a dry run, which changes nothing."""

    def __init__(self, coordination: CoordinationStore, archive: str, acting: Acting | None) -> None:
        self._coordination = coordination
        self._archive = archive
        self._acting = acting

    def awaited(self, archive: Archive, removed: Sequence[Removed]) -> Mapping[str, tuple[str, ...]]:
        """Return the blocks that must keep their files, with the awaited replicas."""
        # What was removed before there was a log has no entry, and all replicas are later than that.
        places = {number: archive.commit(number).log for number in {block.removed for block in removed}}
        indexes = {number: place.index if place else 0 for number, place in places.items()}

        def look(connection: Connection) -> Mapping[int, tuple[str, ...]]:
            if self._acting is not None:
                guard(connection, self._acting)
            return {index: waits_for(connection, self._archive, index) for index in set(indexes.values())}

        behind = self._coordination.run(look)
        return {block.id: names for block in removed if (names := behind[indexes[block.removed]])}

    def abandon(self, blocks: Collection[str]) -> Collection[str]:
        """Record in the store that blocks must not be added any more; return those recorded."""
        acting = self._acting
        if acting is None:
            raise RuntimeError("a dry run abandons nothing")
        return self._coordination.run(lambda c: abandon(c, acting, blocks)) if blocks else ()

    def unnamed(self, blocks: Collection[str]) -> Collection[str]:
        """Return the blocks that no entry adds."""
        return self._coordination.run(lambda c: unnamed(c, self._archive, blocks)) if blocks else ()
