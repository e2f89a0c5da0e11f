"""Check of a sequential read against the coordination store, in one transaction, once the archive is open.

A replica executes the log in order. So one that is past the greatest entry whose quorum has succeeded has all that
has. Blocks that may yet be taken back are hidden. What counts is where the opened commit is: the replica may have gone
on since. The transaction is serializable, which a standby, which may lag behind, refuses.

Source of the rule: the paper that docs/replication.md names. `specs/Quorum.tla` checks it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import sqlalchemy as sa

from holdfast.common.errors import BusyError
from holdfast.replication.log import quorum, schema
from holdfast.replication.log.consistency_check import ask_others, check_others, check_replica, look_up
from holdfast.replication.log.replicas import lost, replicas
from locking.one_line import line_logger

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from sqlalchemy import Connection

    from holdfast.archive.format.model import LogPlace
    from holdfast.replication.log.replicas import LogState
    from holdfast.replication.log.silence import NotAsked
    from holdfast.replication.log.store import CoordinationStore
    from holdfast.storage import ObjectStore


logger = line_logger(__name__)


@dataclass(frozen=True)
class SequentialAnswer:
    """Ids of blocks that are not to be shown, and the entries that the log has beyond what was opened."""

    hidden: frozenset[str]
    behind: int
    not_asked: tuple[NotAsked, ...] = ()


def ask(
    coordination: CoordinationStore, archive: str, url: str, place: LogPlace, places: Callable[[str], ObjectStore]
) -> SequentialAnswer:
    """Return the coordination store's answer to a sequential read.

    :param place: where the commit that was opened says that it stands.
    :raises LostReplicaError, OldStoreError: the replica is lost; or contradicts the store.
    :raises BusyError: it lacks something that has succeeded, or too few replicas can be read.
    """
    answers = ask_others(coordination, archive, place.replica, places)
    for silent in answers.not_asked:
        logger.warning("%s.", silent.words)
    coordination.run(lambda c: _check_readable(c, archive, answers.unread))
    answer = coordination.run(lambda c: _ask(c, archive, url, place, answers.places, coordination.url))
    return replace(answer, not_asked=answers.not_asked)


def _ask(
    connection: Connection, archive: str, url: str, place: LogPlace, positions: Mapping[str, LogPlace], store: str
) -> SequentialAnswer:
    record = look_up(connection, archive, place)
    if record.row.is_lost:
        raise lost(record.row)
    check_replica(record, url, place, store)
    check_others(connection, archive, positions, store)
    _check_far_enough(connection, record.log, place)
    q = schema.quorums.c
    hidden = sa.select(q.block).where(q.archive == archive, q.state != quorum.COMMITTED)
    return SequentialAnswer(frozenset(connection.execute(hidden).scalars()), record.log.head - place.index)


def _check_readable(connection: Connection, archive: str, unread: Collection[str]) -> None:
    if why := quorum.too_few_readable(connection, archive, quorum.SMALLEST, unread):
        raise BusyError(f"a sequential read is not possible now: {why}. --consistency eventual reads without that")


def _check_far_enough(connection: Connection, state: LogState, place: LogPlace) -> None:
    # Of what failed before the log begins, the store has forgotten which block that was.
    needed = max(state.quorum, state.start - 1)
    if place.index >= needed:
        return
    far_enough = [
        f"{row.name} ({row.url})"
        for row in replicas(connection, state.archive)
        if row.pointer > needed and not row.is_lost and row.name != place.replica
    ]
    others = f"; {', '.join(far_enough)} can be read" if far_enough else ""
    raise BusyError(
        f"replica {place.replica} ends at entry {place.index}, and a sequential read needs {needed}{others}. 'holdfast "
        f"replica sync {place.replica}' brings it there; --consistency eventual reads what it has"
    )
