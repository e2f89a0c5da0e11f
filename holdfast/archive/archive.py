"""An archive: created once, opened by reading its commits, changed only by adding one."""

from __future__ import annotations

import hashlib
import uuid
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from holdfast.archive.format.checkpoint import read_newest, write_checkpoint
from holdfast.archive.format.claim import claim, claim_commit
from holdfast.archive.format.commit_folder import CommitFolder, TipVoidedError
from holdfast.archive.format.commits import COMMITS, commit_key
from holdfast.archive.format.last_seen import (
    LastSeen,
    PutBackError,
    SeenNow,
    begin_seen,
    note_seen,
    place_of,
    read_seen,
)
from holdfast.archive.format.model import ArchiveCommit, Identity
from holdfast.archive.format.state import Change, State, check_readable, check_writable, validate
from holdfast.archive.format.trust import CommitReader, check_vouched
from holdfast.archive.format.versions import (
    BORN_SINCE,
    DECISIONS_SINCE,
    FORMAT,
    FORMATS,
    PACKS_SINCE,
    REPLICAS_SINCE,
    SIGNED_SINCE,
    VOID_SINCE,
    WRITER,
    read_versions,
)
from holdfast.common.errors import DamagedError, OutcomeUnknownError, RefusedError, UsageError
from holdfast.storage.contract.object_store import check_new_document
from holdfast.storage.encryption.signing_key import missing_key
from locking.one_line import line_logger
from locking.runtime import SYSTEM
from locking.store import ObjectNotFound, StoreError
from locking.terms import Terms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Self

    from holdfast.storage import ObjectStore

logger = line_logger(__name__)

IDENTITY_KEY = "archive.json"
CHECKPOINT_EVERY = 64
"""Commits that an archive is opened by reading, at most: a writer that is killed in between may leave some more."""

CHECKPOINTS_SINCE = 2  # the format that has them
ENCRYPTED_SINCE = 2  # the format that releases know who can read encrypted archives
_NOT_USED = ("probes/", "keys/")  # what may be in a place of no archive: it was looked at, or a creation was killed
_NOT_USED_BY_REPLICA = (*_NOT_USED, "locks/", "runs/")
"""What may be where a replica was, besides: a job that was at work when its place was emptied wrote on."""

LATE_S = Terms().lease
"""Seconds after the begin of a commit's creation from which its acknowledgement is late.

A number can be voided when what is there is empty and older than lease and grace. Before, nobody has seen it so.
"""

monotonic = SYSTEM.clock.monotonic  # a clock that counts the time a machine is suspended


@dataclass
class Archive:
    """One opened archive, in its state as of the last `refresh()`."""

    store: ObjectStore
    identity: Identity
    state: State
    _since_checkpoint: int = 0  # how many commits were read beyond the newest checkpoint, or made since
    _stops: bool = False  # before a commit that is damaged or missing
    _before_signing: bool = False  # it is opened by who is about to vouch for what is there
    documents: dict[str, str] = field(default_factory=dict)
    """SHA-256 of its identity by its key, as commits vouch for it."""

    @classmethod
    def create(
        cls, store: ObjectStore, *, name: str, number: int = FORMAT, replica_of: Identity | None = None
    ) -> Archive:
        """Create an archive at an empty location.

        :param number: its format.
        :param replica_of: the archive that it is to be a replica of; it has that one's id.
        :raises UsageError: there is an archive already, or other objects; or no such format.
        :raises RefusedError: the store cannot create an object only if it is absent.
        """
        if number not in FORMATS:
            raise UsageError(f"there is no format {number}; {WRITER} writes {' and '.join(map(str, FORMATS))}")
        if store.key is not None and number < ENCRYPTED_SINCE:
            raise UsageError(f"an archive of format {number} cannot be encrypted: leave --format out, or the key")
        _refuse_used_place(store, _NOT_USED_BY_REPLICA if replica_of else _NOT_USED)
        if not store.probe_create_if_absent():
            raise RefusedError(
                f"{store.url} let several requests create the same object at once, so two backups could "
                "overwrite each other's commits. Use a store with conditional writes (If-None-Match)."
            )
        store.begin()
        now = store.list(IDENTITY_KEY).now
        identity = Identity(
            id=replica_of.id if replica_of else str(uuid.uuid4()),
            name=name,
            created=now,
            format=number,
            min_reader=max(number, _signed_since(store)),
            writer=WRITER,
        )
        if claim(store, IDENTITY_KEY, identity.to_bytes()) != identity.to_bytes():
            raise UsageError(f"{store.url} has just been made an archive by another command")
        if (before := read_seen(place_of(store))) is not None and before.sequence:
            logger.warning("This machine has seen %s at %s: it is gone.", before, store.url)
        begin_seen(place_of(store), identity, before)
        return cls.open(store)

    @classmethod
    def open(
        cls,
        store: ObjectStore,
        *,
        recovering: bool = False,
        before_damage: bool = False,
        before_signing: bool = False,
        unseen: bool = False,
    ) -> Self:
        """Open an archive: read its identity, its newest checkpoint, and the commits since.

        :param recovering: also one that is a replica which is being made anew.
        :param before_damage: stop before a commit that is damaged or missing, to read what was before it: `cut_off` of
            the state says why. Nothing can be added then.
        :param before_signing: also one whose commits are signed by no signer known here.
        :param unseen: whatever this machine has seen at the place before.
        :raises UsageError: there is no archive, or it needs a newer release.
        :raises DamagedError: the identity or a commit is missing, cut or not what it should be; or it is such one; or
            it is an older state than this machine has seen there.
        """
        before = read_seen(place_of(store))  # first: whoever adds a commit meanwhile remembers that after it is there
        try:
            body = store.read(IDENTITY_KEY).body  # the commits say whether it is to be believed
        except ObjectNotFound as error:
            if store.first(COMMITS, 1):
                raise DamagedError(
                    f"{IDENTITY_KEY} is missing from {store.url}, where there are commits of an archive. "
                    "Restore this object from a copy of the archive."
                ) from error
            raise UsageError(
                f"{store.url} is not an archive (it has no {IDENTITY_KEY}). "
                "Is the URL right, the disk mounted, the bucket the right one? Only where there never was an archive, "
                "create one ('holdfast init')"
            ) from error
        check_readable(read_versions(body, IDENTITY_KEY), IDENTITY_KEY)
        identity = Identity.from_bytes(body, IDENTITY_KEY)
        newest = None if before_signing else read_newest(store, identity.id)
        archive = cls(store, identity, newest or State.begun(identity.format))
        archive._stops, archive._before_signing = before_damage, before_signing
        archive.documents = {IDENTITY_KEY: hashlib.sha256(body).hexdigest()}
        archive.refresh()
        if not before_signing:
            check_vouched(archive.state, archive.documents)
        place = archive.state.log
        if place is not None and place.recovering and not recovering:
            raise DamagedError(
                f"{store.url} is replica {place.replica}, which is being recovered from another one: read that one, or "
                "wait ('holdfast replica status' shows both)"
            )
        if not (recovering or unseen or archive.state.cut_off):
            archive._note_seen(instead_of=archive._check_seen(before))
        return archive

    def _check_seen(self, before: LastSeen | None) -> LastSeen | None:
        """Refuse an older state than was seen here; return what was seen where a person has accepted that."""
        now = self.seen_now
        if before is None or now.is_after(before):
            return None
        if not now.is_put_back(before):
            return before
        raise PutBackError(
            f"{self.store.url} had {before} when this machine last saw it, and has "
            f"{LastSeen.of(self.identity, self.state)} now: it was put back to an older state, or exchanged. Bring "
            "back what was there; where this is meant, 'holdfast accept' says so in the archive"
        )

    @property
    def seen_now(self) -> SeenNow:
        return SeenNow(self.identity, self.state, self.commit)

    def _note_seen(self, *, instead_of: LastSeen | None = None) -> None:
        note_seen(place_of(self.store), LastSeen.of(self.identity, self.state), instead_of=instead_of)

    def refresh(self) -> None:
        """Read the commits added since the last refresh; all, where the last one that was read was voided since."""
        known = self.state.sequence
        try:
            self.state = self._read_on(self.state)
        except TipVoidedError:
            self.state = self._read_on(State.begun(self.identity.format))
        self._since_checkpoint += self.state.sequence - known

    @property
    def _folder(self) -> CommitFolder:
        return CommitFolder(self.store, self.identity, before_signing=self._before_signing)

    def _read_on(self, state: State) -> State:
        new = self._folder.new(state.sequence)
        return state.before_damage(new) if self._stops else state.after(new)

    def settled(self) -> State:
        """Return the state that deletions are decided by: without blocks that may still be taken back."""
        return self.state

    def commit(self, sequence: int) -> ArchiveCommit:
        """Read a commit by its number; UsageError: there is none."""
        if not 1 <= sequence <= self.state.sequence:
            raise UsageError(f"there is no commit {sequence}: the archive has {self.state.sequence}")
        if sequence in self.state.void:
            raise UsageError(f"number {sequence} was voided: it never was a commit")
        return CommitReader(self.store, self.state.vouched_by).read(sequence)

    def commits(self, since: int = 0) -> Iterator[ArchiveCommit]:
        """Read all commits after a number, in order; DamagedError: one is missing or not what was written."""
        while since in self.state.void:
            since -= 1
        return self._folder.read(self.state.numbers(since), since)

    def newest_first(self) -> Iterator[ArchiveCommit]:
        """Read all commits, the newest one first, each when it is asked for."""
        return map(self.commit, reversed(self.state.numbers()))

    def add(self, plan: Callable[[State], Change], *, check: Callable[[], None], fence: str | None) -> ArchiveCommit:
        """Add one commit.

        It reads to the tail, plans, validates, checks the locks, and creates the next number. Where another commit took
        the number, everything is planned again from the state that it made; where a reply was lost, the same bytes are
        offered for the same number until it is taken, then looked at.

        :param plan: makes the change for a state; called again for every new tail.
        :param check: raises if a lock this work stands under is no longer held.
        :raises RefusedError: the change is not valid in the newest state.
        :raises OutcomeUnknownError: it is not known whether the commit exists; nothing may be cleaned up.
        """
        identity = str(uuid.uuid4())
        while True:
            self.refresh()
            change = plan(self.state)
            if self.state.cut_off and change.void is None:
                raise DamagedError(self.state.cut_off)
            self.check_may_add(vouches=change.vouches is not None)
            validate(self.state, change)
            check()
            commit = self._next(change, identity, fence)
            if not change.executes_entry and change.adopted is None:  # else it was decided elsewhere
                self._check_holds(self.state, commit)
            key, body = commit_key(commit.sequence), commit.to_bytes()
            check_new_document(key, len(body))
            begun = monotonic()
            stored = claim_commit(self.store, key, body)
            if stored.id != identity:
                continue
            self.state = replace(self.state, cut_off="").after([stored])
            if monotonic() - begun > LATE_S and not self._counts(stored, fence):
                identity = str(uuid.uuid4())
                continue
            self._since_checkpoint += 1
            self._note_seen()
            self._write_checkpoint()
            return stored

    def _counts(self, late: ArchiveCommit, fence: str | None) -> bool:
        """Return whether a commit counts that the store has acknowledged late.

        Its number may have been voided, or may be by a process that has looked before and was suspended since. The next
        number decides: where it is free, a commit that changes nothing takes it.
        """
        while True:
            try:
                self.refresh()
            except DamagedError as error:
                raise OutcomeUnknownError(
                    f"whether commit {late.sequence} counts is not known, since it came late, and {error}"
                ) from error
            if self.state.sequence > late.sequence:
                return late.sequence not in self.state.void
            settled = self._next(Change(kind="settled"), str(uuid.uuid4()), fence)
            claim_commit(self.store, commit_key(settled.sequence), settled.to_bytes())

    def check_may_add(self, *, vouches: bool = False) -> None:
        """Check that this release and this process may add commits: long work would be in vain otherwise.

        :param vouches: the one to be added begins the signing of commits.
        :raises UsageError: a newer release is needed; or commits are to be signed and there is no key for that, or
            there is one and nothing vouches for the commits that are here.
        """
        check_writable(self.state)
        if self.store.signing.key is None and (vouches or self.state.vouched_by):
            raise missing_key(self.store.url)
        if self.store.signing.key is not None and self.state.sequence and not (vouches or self.state.vouched_by):
            raise UsageError(
                f"{self.store.url} has commits that are not signed, and there is a key to sign with: 'holdfast signing "
                "start' vouches for them first, or leave the key out"
            )

    @staticmethod
    def _check_holds(state: State, commit: ArchiveCommit) -> None:
        if commit.remove and state.holds:
            from holdfast.archive.history.holds import check_holds

            check_holds(state, state.after([commit]))

    def _write_checkpoint(self) -> None:
        if self._since_checkpoint >= CHECKPOINT_EVERY and self.state.format >= CHECKPOINTS_SINCE:
            with suppress(StoreError):
                write_checkpoint(self.store, self.identity.id, self.state)
            self._since_checkpoint = 0

    def _next(self, change: Change, identity: str, fence: str | None) -> ArchiveCommit:
        return ArchiveCommit(
            sequence=max(self.state.sequence, change.void or 0) + 1,
            id=identity,
            archive=self.identity.id,
            parent=self.state.tip,
            parent_checksum=self.state.tip_checksum,
            kind=change.kind,
            format=change.format or self.state.format,
            min_reader=max(change.format or 0, self.state.min_reader, _reader_of(change), _signed_since(self.store)),
            min_writer=max(change.format or 0, self.state.min_writer, _writer_of(change), _signed_since(self.store)),
            fence=fence,
            committed_at=self.store.list(IDENTITY_KEY).now,
            writer=WRITER,
            add=change.add,
            remove=change.remove,
            abandoned=change.abandoned,
            vacuumed=change.vacuumed,
            holds=change.holds,
            released=change.released,
            reason=change.reason,
            log=change.log or self.state.log,
            adopted=change.adopted,
            aside=change.aside,
            vouches=self._vouches(change),
            documents=self._vouched_documents(change),
            supersedes=self._supersedes(change),
            void=None if change.void is None else self.state.sequence + 1,
        )

    def _supersedes(self, change: Change) -> dict[str, int]:
        """Return the states that a commit takes the place of; the first one of an archive, that of what was there."""
        before = read_seen(place_of(self.store)) if not self.state.sequence else None
        replaced = before.replaces if before and before.archive == self.identity.id else {}
        return {**replaced, **change.supersedes}

    def _vouched_documents(self, change: Change) -> dict[str, str] | None:
        """Return the digests of objects that a commit vouches for: the first one by which every object is signed."""
        if change.documents is not None:
            return dict(change.documents)
        return self.documents if self.state.documents is None and self.store.signing.key is not None else None

    def _vouches(self, change: Change) -> tuple[str, ...] | None:
        """Return the checksums that a commit vouches for; the first commit of a signed archive vouches for none."""
        return () if not self.state.sequence and self.store.signing.key is not None else change.vouches


def _signed_since(store: ObjectStore) -> int:
    return SIGNED_SINCE if store.signing.key is not None else 1


def _writer_of(change: Change) -> int:
    if change.void is not None:
        return VOID_SINCE
    if change.log is None:
        return 1
    return DECISIONS_SINCE if change.log.acknowledged or change.log.members else REPLICAS_SINCE


def _reader_of(change: Change) -> int:
    if change.void is not None:
        return VOID_SINCE
    if any(block.kind == "changes" and block.stream and block.stream.born for block in change.add):
        return BORN_SINCE
    return PACKS_SINCE if any(block.packs for block in change.add) else 1


def _refuse_used_place(store: ObjectStore, but_for: tuple[str, ...]) -> None:
    there = [found.key for found in store.list("").objects if not found.key.startswith(but_for)]
    if IDENTITY_KEY in there:
        raise UsageError(f"{store.url} is an archive already")
    if there:
        raise UsageError(
            f"{store.url} is not empty (it holds {there[0]} and {len(there) - 1} more): "
            "an archive wants a place of its own"
        )
