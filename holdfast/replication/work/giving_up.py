"""Giving up of entries with files that no replica has any more: no replica could go beyond them otherwise.

A person gives one up, or it has been known for long that no replica has the files. It is refused while a replica that
is not lost could not be asked; without a person, also while a lost one could not be. With the entry goes what was
appended behind it and builds on it: following changes of the source, and what removes its blocks. The source's ends go
back to what is left. Where the server has forgotten the changes since, or a full backup that stays would follow on
what is given up, the next backup starts over with a full one, and names the gap.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from holdfast.archive import locks
from holdfast.archive.files.transfer import is_whole, missing_files
from holdfast.archive.format.state import stream_end
from holdfast.archive.maintenance.abandoned_backups import GIVEN_UP, reason_of
from holdfast.common.errors import BusyError, HoldfastError, RefusedError, UsageError
from holdfast.replication.log import log, quorum
from holdfast.replication.log.consistency_check import check_replica, look_up
from holdfast.replication.log.replicas import log_state, put_ends, replicas
from holdfast.replication.work.survey import ReadableReplica, UnreadableReplica, ask, of_archive
from holdfast.storage import open_store
from locking import LockError, Owner
from locking.store import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from sqlalchemy import Connection

    from holdfast.archive.format.block import Block
    from holdfast.archive.format.document import FileRecord
    from holdfast.archive.format.state import State
    from holdfast.replication.log.log import Ends, LogEntry
    from holdfast.replication.log.replicas import ReplicaRow
    from holdfast.replication.log.store import CoordinationStore
    from holdfast.replication.work.survey import SurveyedReplica
    from holdfast.storage import ObjectStore


@dataclass(frozen=True)
class GivingUp:
    """Entries that are given up together.

    :param missing: keys of the first entry's files that no replica has.
    :param ends: what is left of each source; `head`: of the log.
    :param by: a replica that stands right before the first entry.
    """

    archive: str
    missing: tuple[str, ...]
    entries: tuple[LogEntry, ...]
    ends: dict[str, Ends]
    head: int
    by: str

    @property
    def index(self) -> int:
        """Return the index of the first entry."""
        return self.entries[0].index

    def change(self, source: str) -> log.EntryChange:
        """Return the change that takes back the blocks of a source, with the reason."""
        blocks = [block for entry in self.entries for block in entry.change.add if block.source.name == source]
        indexes = ", ".join(str(entry.index) for entry in self.entries)
        why = f"no replica had {self.missing[0]} any more (of the update log: {indexes})"
        return log.EntryChange(
            kind=GIVEN_UP,
            remove=tuple(block.id for block in blocks),
            ends={source: self.ends[source]},
            reason=reason_of(source, why),
        )


def prepare(
    coordination: CoordinationStore,
    archive: str,
    index: int,
    *,
    ask_lost: bool = False,
    places: Callable[[str], ObjectStore] = open_store,
) -> GivingUp:
    """Plan the giving up of an entry, without changing anything.

    :param ask_lost: lost replicas must be readable, too.
    :raises UsageError: the log has no such entry, or it adds nothing, or was given up.
    :raises RefusedError: a replica could not be asked, has executed the entry, or is not there yet; or no file is gone.
    :raises OldStoreError: the store and a replica contradict each other.
    """
    rows, head = coordination.run(lambda c: (replicas(c, archive), log_state(c, archive).head))
    entries = list(_entries(coordination, archive, index))
    first = entries[0] if entries else None
    if first is None or first.index != index or first.failed or not first.change.add:
        raise UsageError(f"the log has no entry {index} that adds a block: a sync that cannot go on says which one")
    surveyed = of_archive(ask({row.name: row.url for row in rows}, places), archive)
    asked = _asked(coordination, index, rows, surveyed, ask_lost=ask_lost)
    before = next(
        (replica for replica in asked if replica.place.index == index - 1 and not replica.place.recovering), None
    )
    if before is None:
        raise RefusedError(f"no replica has come to entry {index - 1} yet: 'holdfast replica sync --all' first")
    stores = [replica.archive.store for replica in surveyed if isinstance(replica, ReadableReplica)]
    missing = _missing([file for block in first.change.add for file in block.files()], stores)
    if not missing:
        raise RefusedError(f"every file of entry {index} is at some place: 'holdfast replica sync --all' fetches them")
    chosen = _Chosen(before.archive.state)
    for entry in entries:
        if not entry.failed:
            chosen.look_at(entry)
    ends = {source: chosen.ends_of(source) for source in sorted(chosen.sources)}
    return GivingUp(archive, missing, tuple(chosen.entries), ends, head, before.name)


def give_up_in_time(
    coordination: CoordinationStore,
    archive: str,
    index: int,
    *,
    after: timedelta,
    wait: float = 0.0,
    places: Callable[[str], ObjectStore] = open_store,
) -> tuple[timedelta, tuple[int, ...]]:
    """Give up an entry once its files have been missing for long; return the time left, or zero and the indexes.

    No person was asked: so all replicas must be readable, lost ones, too. The time starts over whenever one is not, or
    after as long without a look.

    :raises HoldfastError, StoreError, LockBusy: as `prepare` and `give_up` do.
    """

    def note(connection: Connection) -> float:
        return log.note_missing(connection, archive, index, pause=after.total_seconds())

    try:
        prepare(coordination, archive, index, places=places, ask_lost=True)
        remaining = after - timedelta(seconds=coordination.run(note))
        if remaining > timedelta():
            return remaining, ()
        given_up, _ = give_up(coordination, archive, index, wait=wait, places=places, ask_lost=True)
    except (BusyError, LockError):
        raise
    except (HoldfastError, StoreError):
        coordination.run(lambda c: log.clear_missing(c, archive, first=index, last=index))
        raise
    return timedelta(), tuple(entry.index for entry in given_up.entries)


def _entries(coordination: CoordinationStore, archive: str, since: int) -> Iterator[LogEntry]:
    while some := coordination.run(partial(log.entries, archive=archive, since=since)):
        yield from some
        since = some[-1].index + 1


def _asked(
    coordination: CoordinationStore,
    index: int,
    rows: Sequence[ReplicaRow],
    surveyed: Sequence[SurveyedReplica],
    *,
    ask_lost: bool,
) -> list[ReadableReplica]:
    """Return the replicas that are not lost, once all were read and none has executed the entry."""
    pointers = {row.name: row.pointer for row in rows if not row.is_lost}
    good = [replica for replica in surveyed if replica.name in pointers]
    waited_for = [replica for replica in (surveyed if ask_lost else good) if isinstance(replica, UnreadableReplica)]
    if waited_for:
        said = "; ".join(f"{replica.name} ({replica.problem})" for replica in waited_for)
        raise RefusedError(
            f"entry {index} waits for {said}: it may have the files. Mend that; if it is gone for good, 'holdfast "
            f"replica remove {waited_for[0].name} --force'"
        )
    asked = [replica for replica in good if isinstance(replica, ReadableReplica)]
    for replica in asked:
        record = coordination.run(partial(look_up, archive=replica.archive.identity.id, place=replica.place))
        check_replica(record, replica.url, replica.place, coordination.url)
        if max(replica.place.index, pointers[replica.name] - 1) >= index:
            raise RefusedError(
                f"{replica.name} has executed entry {index}: 'holdfast verify {replica.url} --deep' shows what is the "
                "matter with it. Where it is of no use any more, remove it first"
            )
    return asked


def _missing(files: Sequence[FileRecord], stores: Sequence[ObjectStore]) -> tuple[str, ...]:
    """Return the files that no replica has as they were written; what seems to be there is read."""
    lacking = [{file.path for file in missing_files(store, files)} for store in stores]

    def is_somewhere(file: FileRecord) -> bool:
        return any(
            file.path not in missing and is_whole(store, file) for store, missing in zip(stores, lacking, strict=True)
        )

    return tuple(file.path for file in files if not is_somewhere(file))


class _Chosen:
    """Entries that are given up, from the first one on, in the order of the log."""

    def __init__(self, state: State) -> None:
        self.entries: list[LogEntry] = []
        self.sources: set[str] = set()
        self._state = state
        self._ends: dict[str, Ends] = {}
        self._blocks: set[str] = set()
        self._reached: set[tuple[str, str]] = set()
        """Positions of sources to which only what is given up has come."""

    def ends_of(self, source: str) -> Ends:
        return self._ends.get(source, (self._state.ends.get(source, ""), self._state.streams.get(source, "")))

    def look_at(self, entry: LogEntry) -> None:
        """Give up an entry that is the first or builds on one; of others, record the positions reached."""
        change = entry.change
        reached = {(block.source.name, end) for block in change.add if (end := stream_end(block))}
        if not self.entries or self._builds_on(change):
            self.entries.append(entry)
            self.sources |= {block.source.name for block in change.add}
            self._blocks |= {block.id for block in change.add}
            self._reached |= reached
            return
        self._reached -= reached
        for block in change.add:
            if not block.parts and block.after is None:
                name = block.source.name
                stream = stream_end(block) or self.ends_of(name)[1]
                self._ends[name] = (block.covers.to_position, "" if self._is_cut_off(block) else stream)

    def _is_cut_off(self, block: Block) -> bool:
        """Return whether the changes before a full backup, of its own stream, are given up.

        Changes from before it would be joined to nothing: there is no stream to go on with.
        """
        stream = block.stream
        return stream is not None and not stream.opened and (block.source.name, stream.position) in self._reached

    def _builds_on(self, change: log.EntryChange) -> bool:
        follows = any(
            block.kind == "changes" and (block.source.name, block.covers.from_position) in self._reached
            for block in change.add
        )
        return follows or not self._blocks.isdisjoint(change.remove)


def give_up(
    coordination: CoordinationStore,
    archive: str,
    index: int,
    *,
    wait: float = 0.0,
    ask_lost: bool = False,
    places: Callable[[str], ObjectStore] = open_store,
) -> tuple[GivingUp, int]:
    """Give up an entry and the entries that build on it.

    Return them, and the index of the last entry that records it: there is one for each source.

    :raises UsageError, RefusedError: as `prepare` does.
    :raises LockBusy, BusyError: another process works on a replica; or the log has changed meanwhile.
    """
    planned = prepare(coordination, archive, index, ask_lost=ask_lost, places=places)
    rows = coordination.run(lambda c: replicas(c, archive))
    with ExitStack() as stack:
        for row in sorted((row for row in rows if not row.is_lost), key=lambda row: row.url):
            purpose = f"giving up entry {index}"
            stack.enter_context(locks.acquire(places(row.url), "sync", owner=Owner(), purpose=purpose, wait=wait))
        # Once more: from here on no entry is executed.
        planned = prepare(coordination, archive, index, ask_lost=ask_lost, places=places)
        return planned, coordination.run(lambda c: _write(c, planned))


def _write(connection: Connection, planned: GivingUp) -> int:
    archive = planned.archive
    state = log_state(connection, archive)
    beyond = any(row.pointer > planned.index for row in replicas(connection, archive) if not row.is_lost)
    if state.head != planned.head or beyond:
        raise BusyError(f"the log of {state.name} has changed meanwhile: start again")
    index = 0
    for source, ends in planned.ends.items():
        index = log.append_decision(connection, archive, planned.change(source), by=planned.by)
        put_ends(connection, archive, source, ends)
    for entry in planned.entries:
        block = entry.change.add[0] if entry.change.add else None
        identity, name = (block.id, block.source.name) if block else ("", "")
        log.clear_missing(connection, archive, first=entry.index, last=entry.index)
        quorum.give_up(connection, archive, entry.index, block=identity, source=name, dropped_by=index)
    return index
