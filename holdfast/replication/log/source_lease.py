"""Leases on sources: while a replica backs one up, backups of it through others wait. One transaction each."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from holdfast.common.errors import BusyError
from holdfast.replication.log import schema
from holdfast.replication.log.log import ends_of
from holdfast.replication.log.replicas import insert_source, renew
from holdfast.replication.log.store import clock
from locking import Owner, liveness

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from holdfast.replication.log.log import Ends
    from holdfast.replication.log.replicas import Acting

SOURCE_LEASE_S = 900.0
"""So long after its last renewal a backup keeps other replicas from backing up the same source."""

_RUN = ", run "
"""Between a replica and a run in the column of owners: the names of replicas have no comma."""

_S = schema.sources.c


@dataclass(frozen=True)
class SourceLease:
    """Lease on a source until a time (s since 1970, store's clock); older releases name no process."""

    source: str
    replica: str
    run: str
    until: float
    process: Owner | None

    def keeps_out(self, now: float) -> bool:
        """Return whether backups through other replicas wait for it: not for a process proved gone."""
        return self.until > now and not (self.process is not None and liveness(self.process) == "gone")

    def value(self, now: float) -> dict[str, Any]:
        """Return it as `replica status --json` and `locks list --json` print it."""
        return {
            "source": self.source,
            "replica": self.replica,
            "run": self.run,
            "owner": asdict(self.process) if self.process else None,
            "process": liveness(self.process) if self.process else "unknown",
            "expires_in_s": round(max(0.0, self.until - now), 1),
            "words": self.words(now),
        }

    def words(self, now: float) -> str:
        """Return the lease in words, with its end."""
        if self.until <= now:
            return f"{self.describe()}: its lease is over"
        if not self.keeps_out(now):
            return f"{self.describe()}: its process is gone, and its lease ends with that"
        return f"{self.describe()}; its lease ends in {self.until - now:.0f} s unless renewed"

    def describe(self) -> str:
        """Return the holder in words."""
        by = f" ({self.process.describe()})" if self.process else ""
        return f"{self.source} is being backed up by {self.replica}, run {self.run}{by}"


def take_source(
    connection: Connection, acting: Acting, source: str, run: str, *, lease: float = SOURCE_LEASE_S
) -> Ends:
    """Begin or continue the backup of a source through a replica; return the source's ends.

    The lease keeps others from work in vain; a backup is safe since it is appended only where the ends are as it began.
    The caller has the replica's lock for the source: what an earlier run has left here is of one that is gone.

    :raises BusyError: another replica backs it up; names the run and its process.
    """
    renew(connection, acting)
    now = clock(connection)
    held = source_lease(connection, acting.archive, source)
    if held is not None and held.replica != acting.name and held.keeps_out(now):
        raise BusyError(f"{held.describe()}, whose lease ends in {held.until - now:.0f} s")
    values = {
        "owner": _owner(acting, run),
        "owned_until": now + lease,
        "process": json.dumps(asdict(Owner().here())),
    }
    changed = connection.execute(
        schema.sources.update().where(_S.archive == acting.archive, _S.source == source).values(**values)
    )
    if not changed.rowcount:
        insert_source(connection, acting.archive, source, **values)
        return ("", "")
    return ends_of(connection, acting.archive, source)


def source_lease(connection: Connection, archive: str, source: str) -> SourceLease | None:
    """Return the lease on a source, be it over; None where it was given back."""
    return next((lease for lease in source_leases(connection, archive) if lease.source == source), None)


def source_leases(connection: Connection, archive: str) -> list[SourceLease]:
    """Return the leases on an archive's sources that were not given back, by source."""
    query = sa.select(_S.source, _S.owner, _S.owned_until, _S.process).where(_S.archive == archive, _S.owner != "")
    leases = []
    for source, owner, until, process in connection.execute(query.order_by(_S.source)):
        replica, _, run = owner.partition(_RUN)
        leases.append(SourceLease(source, replica, run, until, _process(process)))
    return leases


def _process(text: str) -> Owner | None:
    """Return the process that a lease names; None where a newer release says more of it."""
    try:
        return Owner(**json.loads(text)) if text else None
    except (TypeError, ValueError):
        return None


def release_source(connection: Connection, acting: Acting, source: str, run: str) -> None:
    """Release the lease on a source, if the run still has it."""
    connection.execute(
        schema.sources.update()
        .where(_S.archive == acting.archive, _S.source == source, _S.owner == _owner(acting, run))
        .values(owner="", owned_until=0.0, process="")
    )


def _owner(acting: Acting, run: str) -> str:
    return f"{acting.name}{_RUN}{run}"
