"""Archive that is a replica of an update log: it follows the log entry by entry, and adds its own changes to it.

A replica makes exactly one commit for each entry, in the order of the log, its own entries included: so its commits
alone show how far it is, and the log can be made from them again.
"""

from __future__ import annotations

import uuid
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from holdfast.archive import locks
from holdfast.archive.archive import Archive
from holdfast.archive.files.transfer import fetch_files
from holdfast.archive.format.state import validate
from holdfast.archive.history.visibility import without
from holdfast.common.errors import BusyError, HoldfastError, OutcomeUnknownError, RefusedError, UsageError, sentence
from holdfast.common.words import human_span
from holdfast.replication.log import log, quorum
from holdfast.replication.log.consistency_check import OLD_STORE, ask_others, check_others, check_replica, look_up
from holdfast.replication.log.errors import HeadMovedError, OldStoreError, QuorumFailedError, StoreAwayError
from holdfast.replication.log.replicas import Acting, activate, lost, mark_lost, move_pointer, note_synced, why_lost
from holdfast.replication.work.other_replicas import OtherReplicas
from holdfast.storage import open_store, opener_like
from holdfast.storage.contract.object_store import check_new_document
from locking import LockBusy, LockError, Owner
from locking.one_line import line_logger
from locking.store import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sqlalchemy import Connection

    from holdfast.archive.format.model import ArchiveCommit, LogPlace
    from holdfast.archive.format.state import Change, State
    from holdfast.replication.log.log import Draft, LogEntry
    from holdfast.replication.log.replicas import ReplicaRow
    from holdfast.replication.log.settings import QuorumRequest
    from holdfast.replication.log.silence import NotAsked
    from holdfast.replication.log.store import CoordinationStore
    from holdfast.replication.work.other_replicas import Fetch
    from holdfast.storage import ObjectStore

    Check = Callable[[], None]

logger = line_logger(__name__)

_ENTRIES = 64
"""Read of the log at once."""

_APPENDS = 5
"""So often an append is repeated whose answer was lost."""

_OWN_WAIT_S = 4 * 3600.0
"""For this replica's own lock once there is work that would be in vain: a sync may have large blocks to fetch."""


SILENT_S = 5.0
"""So long a lock is waited for without a word: most syncs have little to do."""


@dataclass(frozen=True)
class Synced:
    """Result of executing entries.

    :param index: of the last entry that is here; `files` and `size` were fetched for those executed.
    :param given_up: indexes of entries given up before: no replica has had their files for long.
    :param not_asked: other replicas that are not lost and could not be asked how far they are.
    """

    replica: str
    index: int
    entries: int
    files: int
    size: int
    given_up: tuple[int, ...] = ()
    not_asked: tuple[NotAsked, ...] = ()

    def describe(self) -> dict[str, Any]:
        """Return it as a dict for JSON."""
        return {
            "replica": self.replica,
            "index": self.index,
            "entries": self.entries,
            "files": self.files,
            "bytes": self.size,
            "given_up": list(self.given_up),
            "not_asked": [replica.describe() for replica in self.not_asked],
        }


@dataclass
class ReplicatedArchive(Archive):
    """A replica, opened by a process that acts for it.

    :param acting: None until `activate`.
    :param quorum_request: the quorum that backups need which are added here; None: none.
    :param leader_epoch: of the leadership that additions are made under; None: the replica need not lead.
    :param fetch: brings the files of entries; `fetched`: files and bytes from other replicas since this was opened.
    :param not_asked: others that could not be asked how far they are, when last tried; `unread`: all names not read.
    """

    coordination: CoordinationStore | None = None
    acting: Acting | None = None
    places: Callable[[str], ObjectStore] = open_store
    quorum_request: QuorumRequest | None = None
    leader_epoch: int | None = None
    fetch: Fetch = fetch_files
    fetched: tuple[int, int] = field(default=(0, 0))
    not_asked: tuple[NotAsked, ...] = ()
    unread: frozenset[str] = frozenset()

    @classmethod
    def begin(
        cls,
        store: ObjectStore,
        coordination: CoordinationStore,
        places: Callable[[str], ObjectStore] | None = None,
    ) -> ReplicatedArchive:
        """Open a replica and begin to act for it.

        :param places: None: opens others by the key of this one.
        :raises UsageError: the archive is at one place only, or follows the log of another store.
        :raises LostReplicaError, OldStoreError: it has to be recovered first; or contradicts the store.
        """
        archive = cls.open(store, recovering=True)
        archive.check_may_add()
        archive.coordination = coordination
        archive.places = places or opener_like(store)
        archive._agree()
        archive.check_others_agree()
        place = archive._place()
        archive.acting = coordination.run(lambda c: activate(c, archive.identity.id, place.replica))
        return archive

    def _place(self) -> LogPlace:
        if self.state.log is None:
            raise UsageError(f"{self.store.url} has no replicas: 'holdfast replica add' makes it the first of several")
        return self.state.log

    def _store(self) -> CoordinationStore:
        if self.coordination is None:
            raise RuntimeError("no store was given")
        return self.coordination

    def in_use(self) -> tuple[CoordinationStore, Acting]:
        """Return the coordination store, and the identity to act under."""
        if self.coordination is None or self.acting is None:
            raise RuntimeError("no process acts for this replica")
        return self.coordination, self.acting

    def _agree(self) -> None:
        """Check this replica against the coordination store.

        A process that is killed between its commit and its note of it leaves the pointer one behind.
        """
        place, coordination = self._place(), self._store()
        record = coordination.run(lambda c: look_up(c, self.identity.id, place))
        row = record.row
        if row.is_lost:
            raise lost(row)
        if place.recovering:
            self._is_lost(row, why_lost(row, place))
        check_replica(record, self.store.url, place, coordination.url)
        if why_lost(row, place):
            self.refresh()  # another process may have executed entries since this was opened
        if why := why_lost(row, self._place()):
            self._is_lost(row, why)

    def _is_lost(self, row: ReplicaRow, reason: str) -> NoReturn:
        """Mark this replica as lost in the store, and raise the error."""
        self._store().run(lambda c: mark_lost(c, self.identity.id, row.name, reason))
        raise lost(replace(row, lost_reason=reason))

    def check_others_agree(self) -> None:
        """Check that the store has all entries that readable replicas have executed."""
        coordination, archive = self._store(), self.identity.id
        answers = ask_others(coordination, archive, self._place().replica, self.places)
        noted = {replica.replica for replica in self.not_asked}
        for replica in answers.not_asked:
            if replica.replica not in noted:
                logger.warning("%s.", replica.words)
        self.not_asked, self.unread = answers.not_asked, answers.unread
        coordination.run(lambda c: check_others(c, archive, answers.places, coordination.url))

    def check_readable(self, quorum_request: QuorumRequest | None) -> None:
        """Check that enough replicas can be read for a quorum to be asked for, or raise BusyError."""
        coordination, acting = self.in_use()
        if quorum_request is None:
            return
        if why := coordination.run(
            lambda c: quorum.too_few_readable(c, acting.archive, quorum_request.size, self.unread)
        ):
            raise BusyError(f"a backup with a quorum of {quorum_request.size} is not possible now: {why}")

    def catch_up(self, *, check: Check = lambda: None, wait: float = _OWN_WAIT_S) -> Synced:
        """Execute the rest of the log, under the locks that this needs.

        :param check: raises if this work must not go on.
        :raises LockBusy: others, such as a sync, hold the locks still after `wait` seconds.
        """
        with self._executing(wait) as held:

            def check_all() -> None:
                check()
                held.check()

            return self.sync(check=check_all, fence=held.fence)

    def _executing(self, wait: float = _OWN_WAIT_S) -> locks.HeldLocks:
        take = partial(locks.acquire, self.store, "sync", owner=Owner(), purpose="executing the update log")
        first = min(wait, SILENT_S)
        try:
            return take(wait=first)
        except LockBusy as busy:
            if wait <= first:
                raise
            logger.warning("Waiting for replica %s, up to %s: %s", self._place().replica, human_span(wait), busy)
        return take(wait=wait - first)

    def sync(self, *, check: Check, fence: str | None, upto: int | None = None) -> Synced:
        """Execute the entries that are not here yet, in order.

        :param check: raises if a lock of the plan "sync" is no longer held.
        :param upto: index of the last one; None: the head of the log.
        :raises DamagedError, EpochOverError: no replica has an entry's files; or another process acts for it now.
        """
        _, acting = self.in_use()
        self.refresh()  # another process of this replica may have had the locks before
        before, fetched = self._place().index, self.fetched
        with ExitStack() as reading:
            others = OtherReplicas(self, reading)
            while entries := self._to_execute(upto):
                for entry in entries:
                    check()
                    self._execute(entry, others, check, fence)
        place = self._place()
        self._note_executed(synced=True)
        return Synced(
            replica=acting.name,
            index=place.index,
            entries=place.index - before,
            files=self.fetched[0] - fetched[0],
            size=self.fetched[1] - fetched[1],
            not_asked=self.not_asked,
        )

    def _to_execute(self, upto: int | None) -> Sequence[LogEntry]:
        coordination, acting = self.in_use()
        index = self._place().index
        if upto is not None and index >= upto:
            return ()
        if coordination.run(lambda c: quorum.overdue(c, acting.archive)):
            self.check_others_agree()

        def read(connection: Connection) -> Sequence[LogEntry]:
            # First: who cannot fetch the block of an entry passes it once that has failed.
            log.fail_overdue(connection, acting.archive, by=acting.name, unread=self.unread)
            return log.entries(connection, acting.archive, index + 1, most=_ENTRIES)

        entries = coordination.run(read)
        return [entry for entry in entries if upto is None or entry.index <= upto]

    def _execute(self, entry: LogEntry, others: OtherReplicas, check: Check, fence: str | None) -> None:
        if not entry.failed:
            others.bring(entry)
        was = self._place()

        def plan(state: State) -> Change:
            return entry.commit(state, was)

        try:
            super().add(plan, check=check, fence=fence)
        except RefusedError:
            if self._place().index < entry.index:  # else a process whose locks were over has executed it all the same
                raise
        self._note_executed()

    def _note_executed(self, *, synced: bool = False) -> None:
        """Record this replica's progress, at the head where `synced`, and vote in pending quorums."""
        coordination, acting = self.in_use()
        index, blocks = self._place().index, self.state.blocks

        def note(connection: Connection) -> None:
            self._check_line(connection)
            if index:
                move_pointer(connection, acting, index=index)
                log.clear_missing(connection, acting.archive, first=1, last=index)
            log.join(connection, acting, index=index, blocks=blocks, unread=self.unread)
            if synced:
                note_synced(connection, acting)

        coordination.run(note)

    def _check_line(self, connection: Connection) -> None:
        """Check in a transaction that relies on the log that the store was not put back meanwhile."""
        coordination, acting = self.in_use()
        check_others(connection, acting.archive, {self.store.url: self._place()}, coordination.url)

    def add(self, plan: Callable[[State], Change], *, check: Check, fence: str | None) -> ArchiveCommit:
        """Append a change to the log, and execute the log up to it; what no other needs to know is only committed.

        :param plan: makes the change for a state; called again where the log has grown.
        :param check: raises if a lock this work stands under is no longer held.
        :raises RefusedError: the change is not valid behind what the log has by now.
        :raises OutcomeUnknownError: the store never said whether the entry was appended; nothing may be cleaned up.
        """
        with self._executing() as executing:

            def check_all() -> None:
                check()
                executing.check()

            while True:
                self.sync(check=check_all, fence=executing.fence)
                self.check_may_add()
                state = self.settled() if self.leader_epoch is not None else self.state
                change = plan(state)
                if not (change.add or change.remove or change.holds or change.released):
                    return super().add(plan, check=check_all, fence=fence)
                draft = self._draft(change, state)
                self._agree()
                self.check_others_agree()
                self.check_readable(draft.quorum_request)
                check_all()
                try:
                    index = self._append(draft)
                except HeadMovedError:
                    continue
                return self._executed(draft, index, check_all, executing.fence)

    def settled(self) -> State:
        """Return the state without blocks that are pending their quorum."""
        return settled(self, self._store())

    def _executed(self, draft: Draft, index: int, check: Check, fence: str | None) -> ArchiveCommit:
        """Execute the log up to an entry of our own, and return its commit.

        :raises OutcomeUnknownError, QuorumFailedError: it could not be executed here; or was taken back before.
        """
        try:
            self.sync(check=check, fence=fence, upto=index)
        except (HoldfastError, LockError, StoreError) as error:
            raise OutcomeUnknownError(
                f"entry {index} was appended, and could not be executed here ({sentence(error)}): the next sync of "
                "this replica makes its commit"
            ) from error
        commit = self._commit_of(draft, index)
        if commit.kind == log.FAILED:
            raise QuorumFailedError(
                f"the deadline of the quorum was over before entry {index} could be executed here: it was taken back, "
                "and nothing of it counts. Start the backup again, and give the replicas more time"
            )
        return commit

    def _commit_of(self, draft: Draft, index: int) -> ArchiveCommit:
        """Return the commit of our own entry: not the newest, where another process went on meanwhile."""
        for commit in self.newest_first():
            if commit.log is None or commit.log.index < index:
                break
            # Commits that have no entry, as a vacuum makes them, repeat the place of the one before.
            if commit.log.entry == draft.id and commit.kind in (draft.change.kind, log.FAILED):
                return commit
        raise OldStoreError(f"entry {index} of the log is another one than {draft.id}, which was appended: {OLD_STORE}")

    def _draft(self, change: Change, planned: State) -> Draft:
        """Return the entry that makes a change, valid in the present state and breaking no hold (RefusedError)."""
        place = self._place()
        ours = replace(change, log=place.model_copy(update={"index": place.index + 1, "entry": "planned"}))
        validate(self.state, ours)
        commit = self._next(ours, "planned", None)
        self._check_holds(planned, commit)
        check_new_document("its commit", len(commit.to_bytes()) * 17 // 16)  # encrypted, it may be larger
        after = self.state.after([commit])
        added = {block.source.name for block in change.add if not block.parts and block.after is None}
        gone = {source for source in self.state.ends if source not in after.ends}
        return log.Draft(
            id=str(uuid.uuid4()),
            change=log.EntryChange.of(change),
            planned_at=place.index,
            expected={source: _ends(self.state, source) for source in added | gone},
            becomes={source: _ends(after, source) for source in added | gone},
            leader_epoch=self.leader_epoch,
            quorum_request=self.quorum_request if added else None,
        )

    def _append(self, draft: Draft) -> int:
        coordination, acting = self.in_use()

        def append(connection: Connection) -> int:
            self._check_line(connection)
            return log.append(connection, acting, draft)

        for lost_answers in range(_APPENDS):
            try:
                return coordination.run(append)
            except OutcomeUnknownError:
                continue  # the next one finds it by its id, if it is there
            except StoreAwayError:
                if not lost_answers:
                    raise
                break  # this one has changed nothing, which says nothing of those before
        raise OutcomeUnknownError(
            f"the coordination store {coordination.url} did not say whether entry {draft.id} was appended; nothing "
            "was cleaned up: look with 'holdfast replica status', and sync before trying again"
        )


def not_asked(archive: Archive) -> list[dict[str, str]]:
    """Return as JSON the replicas that could not be asked; none for an archive at one place."""
    return [replica.describe() for replica in archive.not_asked] if isinstance(archive, ReplicatedArchive) else []


def _ends(state: State, source: str) -> log.Ends:
    return (state.ends.get(source, ""), state.streams.get(source, ""))


def settled(archive: Archive, coordination: CoordinationStore) -> State:
    """Return a replica's state without pending blocks: neither those nor what they stand for may be removed."""
    waiting = {pending.block for pending in coordination.run(lambda c: quorum.pending(c, archive.identity.id))}
    return without(archive.state, waiting)
