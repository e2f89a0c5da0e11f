"""Sync of a replica with its log, and the report of damage."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from holdfast.archive import locks
from holdfast.common.errors import BusyError, DamagedError, HoldfastError, UsageError, sentence
from holdfast.common.words import human_span
from holdfast.replication.log.consistency_check import archive_place, open_replica
from holdfast.replication.log.errors import FilesAwayError, MissingFilesError
from holdfast.replication.log.replicas import log_states, lost, mark_lost, replicas
from holdfast.replication.log.silence import NotAsked
from holdfast.replication.log.store import opened
from holdfast.replication.work.giving_up import give_up_in_time
from holdfast.replication.work.replica import ReplicatedArchive, Synced
from holdfast.storage import open_store
from locking import LockError, Owner
from locking.store import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from datetime import timedelta

    from sqlalchemy import Connection

    from holdfast.archive.archive import Archive
    from holdfast.replication.log.replicas import LogState, ReplicaRow
    from holdfast.replication.log.settings import AnyAddress
    from holdfast.replication.log.store import CoordinationStore
    from holdfast.storage import ObjectStore


def log_at(coordination: CoordinationStore, urls: Collection[str]) -> LogState:
    """Return the log of the archive that has replicas at these URLs, or raise UsageError."""

    def look(connection: Connection) -> LogState | None:
        for log in log_states(connection):
            if any(row.url in urls for row in replicas(connection, log.archive)):
                return log
        return None

    state = coordination.run(look)
    if state is None:
        raise UsageError(
            f"{coordination.url} knows no replica at {', '.join(sorted(urls))}: 'holdfast replica add' makes the first "
            "one"
        )
    return state


def report_damage(archive: Archive, damaged: int, *, address: AnyAddress) -> None:
    """Mark a replica with damaged files, so many that others may have, as lost; recovery fetches these alone."""
    place = archive.state.log
    if place is None:
        raise UsageError(f"{archive.store.url} is no replica: no other place has its files")
    reason = f"verification has found {damaged} files that are damaged or missing"
    with opened(address) as coordination:
        coordination.run(lambda c: mark_lost(c, archive.identity.id, place.replica, reason))


def sync_replica(
    coordination: CoordinationStore,
    archive: str,
    row: ReplicaRow,
    *,
    wait: float,
    gap_after: timedelta | None = None,
    places: Callable[[str], ObjectStore] = open_store,
    execute: Callable[[ObjectStore], Synced] | None = None,
) -> Synced:
    """Bring a replica to the head of its log, under the locks that it needs.

    :param gap_after: entries without files for so long are given up; None: only a person gives them up.
    :param execute: takes the locks at the replica's place, and executes the log there; None: this process does.
    :raises LostReplicaError, SilentReplicaError: it has to be recovered first; or does not answer.
    :raises DamagedError: it is not at its place, or no replica has what an entry adds.
    """

    def execute_log(place: ObjectStore) -> Synced:
        with locks.acquire(place, "sync", owner=Owner(), purpose=f"sync of replica {row.name}", wait=wait) as held:
            return ReplicatedArchive.begin(place, coordination, places).sync(check=held.check, fence=held.fence)

    given_up: tuple[int, ...] = ()
    before = 0
    while True:
        try:
            if row.is_lost:
                raise lost(row)
            place = archive_place(coordination, archive, row, places)
            open_replica(place, archive, row.name)
            return replace((execute or execute_log)(place), given_up=given_up)
        except MissingFilesError as error:
            if gap_after is None or error.index <= before:
                raise
            before = error.index
            try:
                given_up += _give_up(coordination, archive, error, gap_after, wait, places)
            except DamagedError as why:
                if not given_up:
                    raise
                said = ", ".join(map(str, given_up))
                raise DamagedError(f"entries {said} are given up: no replica had their files for long; {why}") from why


def _give_up(
    coordination: CoordinationStore,
    archive: str,
    missing: MissingFilesError,
    after: timedelta,
    wait: float,
    places: Callable[[str], ObjectStore],
) -> tuple[int, ...]:
    """Give up an entry once its time is over; until then, the error says how long that is, or the obstacle.

    Return the indexes given up with it; none where another process has done that.
    """
    try:
        remaining, given_up = give_up_in_time(
            coordination, archive, missing.index, after=after, wait=wait, places=places
        )
    except UsageError:
        return ()
    except (BusyError, LockError):
        raise
    except (HoldfastError, StoreError) as why:
        words = f"{missing}. It is not given up by itself: {sentence(why)}"
        if isinstance(missing, FilesAwayError):
            raise FilesAwayError(words, missing.index) from why
        raise DamagedError(words) from why
    if remaining:
        raise DamagedError(
            f"{missing}. All replicas were asked: it is given up by itself by a sync in {human_span(remaining)}"
        )
    return given_up


def sync_of_result(result: Mapping[str, Any]) -> Synced:
    """Return the sync that a job's result reports, or raise the error at which it ended."""
    if missing := result.get("missing"):
        raise (FilesAwayError if missing.get("away") else MissingFilesError)(missing["why"], missing["entry"])
    return Synced(
        result["replica"],
        result["index"],
        result["entries"],
        result["files"],
        result["bytes"],
        not_asked=tuple(NotAsked(**replica) for replica in result.get("not_asked", ())),
    )
