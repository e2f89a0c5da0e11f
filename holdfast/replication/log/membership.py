"""Membership of replicas: entries of the log say which replicas an archive has.

A copy of the coordination store from before such an entry is contradicted by each replica that has executed it. So an
addition or a removal counts once two of the replicas before it have, or all where there are fewer: every set of
replicas that must be readable has one of them. For a larger quorum it counts once as many have (`quorum.counted`). One
transaction each. `specs/OldStore.tla` is the model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.common.errors import BusyError
from holdfast.replication.log import schema
from holdfast.replication.log.errors import OldStoreError
from holdfast.replication.log.line import entry_id
from holdfast.replication.log.log import MEMBERS, EntryChange, append_decision
from holdfast.replication.log.quorum import SMALLEST, counted, executed
from holdfast.replication.log.replicas import JOINING, add, check_removable, forget, log_state, replica, replicas

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from holdfast.replication.log.replicas import ReplicaRow

_R = schema.replicas.c


def join(connection: Connection, archive: str, *, name: str, url: str) -> int:
    """Add a new, so lost, replica by an entry; return its index. Adding it again changes nothing."""
    there = [row for row in replicas(connection, archive) if row.name == name]
    add(connection, archive, name=name, url=url, lost=JOINING)
    if there:
        return there[0].joined_by
    return join_recovered(connection, archive, name)


def join_recovered(connection: Connection, archive: str, name: str) -> int:
    """Append the entry from which on a replica is a member; return its index.

    It gets it twice: when it is added, so that others know where it is, and when first recovered: it has a vote then.
    """
    return _append(connection, archive, name, "joined_by", {row.name: row.url for row in replicas(connection, archive)})


def leave(connection: Connection, archive: str, name: str, *, force: bool) -> int:
    """Append the entry that removes a replica; return its index, 0 for the last one.

    The replica stays in the store until the removal counts.

    :raises RefusedError: as `replicas.check_removable` does.
    """
    row = replica(connection, archive, name)
    if row.leaves_by:
        return row.leaves_by
    check_removable(connection, archive, name, force=force)
    if len(replicas(connection, archive)) == 1:
        return 0
    stay = {row.name: row.url for row in replicas(connection, archive) if row.name != name and not row.leaves_by}
    return _append(connection, archive, name, "leaves_by", stay)


def end_membership(
    connection: Connection, archive: str, name: str, removal: tuple[int, str | None], *, force: bool, but_for: str = ""
) -> None:
    """Delete the row of a replica whose removal counts in this store, which may have been put back since.

    :param removal: index and id of the entry that removes it; 0: there is none.
    :raises OldStoreError, BusyError: this store has no such entry; or as `check_counts` does.
    """
    if removal[0]:
        index = replica(connection, archive, name).leaves_by
        if (index, entry_id(connection, archive, index)) != removal:
            raise OldStoreError(
                f"the coordination store was put back meanwhile: it does not have entry {removal[0]}, which removes "
                f"{name}, and {name} is still a replica there. Look at 'holdfast replica status', then run this again"
            )
        if not force:
            check_counts(connection, archive, index, but_for=but_for)
    forget(connection, archive, name)


def _append(connection: Connection, archive: str, name: str, column: str, members: dict[str, str]) -> int:
    index = append_decision(connection, archive, EntryChange(kind=MEMBERS, members=members), by="")
    of_row = schema.replicas.update().where(_R.archive == archive, _R.name == name)
    connection.execute(of_row.values({column: index}))
    return index


def waited_for(connection: Connection, archive: str, index: int, *, but_for: str = "") -> tuple[int, list[ReplicaRow]]:
    """Return how many replicas still have to execute an entry so that it counts, and of which.

    :param but_for: name of a replica that leaves by it and cannot execute it.
    """
    there = counted(replicas(connection, archive), SMALLEST)
    old = [row for row in there if row.joined_by < index and row.name != but_for]
    votes = executed(old, index)
    return max(0, min(SMALLEST, len(old)) - len(votes)), [row for row in old if row not in votes]


def check_counts(connection: Connection, archive: str, index: int, *, but_for: str = "") -> None:
    """Check that an entry of membership counts, or raise BusyError with the replicas to sync."""
    count, waiting = waited_for(connection, archive, index, but_for=but_for)
    if not count:
        return
    said = ", ".join(f"{row.name} (lost: {row.lost_reason})" if row.is_lost else row.name for row in waiting)
    raise BusyError(
        f"entry {index}, which says which replicas {log_state(connection, archive).name} has, counts once {count} of "
        f"{said} {'has' if count == 1 else 'have'} executed it, so that no older copy of the coordination store can be "
        "mistaken for this one: 'holdfast replica sync', or 'holdfast replica remove' of one that is gone; then run "
        "this again"
    )
