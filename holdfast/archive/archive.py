"""An archive: created once, opened by reading its commits, changed only by adding one."""

from __future__ import annotations

import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from holdfast.archive.format.checkpoint import read_newest, write_checkpoint
from holdfast.archive.format.commits import COMMITS, commit_key, missing_commit, parse_commit, read_commit
from holdfast.archive.format.model import ArchiveCommit, Identity
from holdfast.archive.format.state import Change, State, check_readable, check_writable, validate
from holdfast.archive.format.versions import (
    BORN_SINCE,
    DECISIONS_SINCE,
    FORMAT,
    FORMATS,
    PACKS_SINCE,
    REPLICAS_SINCE,
    WRITER,
    read_versions,
)
from holdfast.common.errors import DamagedError, OutcomeUnknownError, RefusedError, UsageError
from holdfast.storage.contract.base import check_new_document
from locking.store import ObjectExists, ObjectNotFound, StoreError, StoreOutcomeUnknown, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Self

    from holdfast.storage import ObjectStore

IDENTITY_KEY = "archive.json"
CHECKPOINT_EVERY = 64
"""Commits that an archive is opened by reading, at most: a writer that is killed in between may leave some more."""

CHECKPOINTS_SINCE = 2
"""The format that has them."""

ENCRYPTED_SINCE = 2
"""The format that releases know who can read encrypted archives."""

_NOT_USED = ("probes/", "keys/")
"""What may be in a place of no archive: it was looked at, or a creation was killed."""

_NOT_USED_BY_REPLICA = (*_NOT_USED, "locks/", "runs/")
"""What may be where a replica was, besides: a job that was at work when its place was emptied wrote on."""

ATTEMPTS = 8
"""Times that an object is offered to a store that does not answer."""
_READERS = 8


@dataclass
class Archive:
    """One opened archive. `state` is as of the last `refresh()`."""

    store: ObjectStore
    identity: Identity
    state: State
    _since_checkpoint: int = 0
    """How many commits were read beyond the newest checkpoint, or made since."""
    _stops: bool = False
    """Before a commit that is damaged or missing."""

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
            min_reader=number,
            writer=WRITER,
        )
        try:
            store.create(IDENTITY_KEY, identity.to_bytes())
        except ObjectExists as error:
            raise UsageError(f"{store.url} has just become an archive by somebody else's hand") from error
        return cls.open(store)

    @classmethod
    def open(cls, store: ObjectStore, *, recovering: bool = False, before_damage: bool = False) -> Self:
        """Open an archive: read its identity, its newest checkpoint, and the commits since.

        :param recovering: also one that is a replica which is being made anew.
        :param before_damage: stop before a commit that is damaged or missing, to read what was before it: `cut_off` of
            the state says why. Nothing can be added then.
        :raises UsageError: there is no archive, or it needs a newer release.
        :raises DamagedError: the identity or a commit is missing, cut or not what it should be; or it is such one.
        """
        try:
            body = store.get(IDENTITY_KEY)
        except ObjectNotFound as error:
            if store.list(COMMITS).objects:
                raise DamagedError(
                    f"{IDENTITY_KEY} is missing from {store.url}, where there are commits of an archive. "
                    "Restore this object from a copy of the archive."
                ) from error
            raise UsageError(
                f"{store.url} is not an archive (it has no {IDENTITY_KEY}). "
                f"Check the URL, or create one: holdfast init {store.url}"
            ) from error
        check_readable(read_versions(body, IDENTITY_KEY), IDENTITY_KEY)
        identity = Identity.from_bytes(body, IDENTITY_KEY)
        archive = cls(store, identity, read_newest(store, identity.id) or State.begun(identity.format))
        archive._stops = before_damage
        archive.refresh()
        place = archive.state.log
        if place is not None and place.recovering and not recovering:
            raise DamagedError(
                f"{store.url} is replica {place.replica}, which is being recovered from another one: read that one, or "
                "wait ('holdfast replica status' shows both)"
            )
        return archive

    def refresh(self) -> None:
        """Read the commits added since the last refresh."""
        known = self.state.sequence
        self.state = self.state.before_damage(self._new()) if self._stops else self.state.after(self._new())
        self._since_checkpoint += self.state.sequence - known

    def settled(self) -> State:
        """Return the state that deletions are decided by.

        It is without blocks that may still be taken back.
        """
        return self.state

    def _new(self) -> Iterator[ArchiveCommit]:
        """Read the commits that were not read yet.

        The newest one that was read must still be there.
        """
        here = self.state.sequence
        after = commit_key(here - 1) if here > 1 else ""
        keys = [found.key for found in self.store.list(COMMITS, start_after=after).objects]
        if here and not keys:
            raise missing_commit(here)
        numbered = enumerate(keys, here or 1)
        hole = next(((number, key) for number, key in numbered if key != commit_key(number)), None)
        whole = keys if hole is None else keys[: keys.index(hole[1])]
        yield from self._read(whole[1:] if here else whole)
        if hole is not None:
            raise missing_commit(*hole)

    def _read(self, keys: Sequence[str]) -> Iterator[ArchiveCommit]:
        with ThreadPoolExecutor(_READERS) as pool:
            for key, body in zip(keys, pool.map(self.store.get, keys), strict=True):
                yield parse_commit(key, body)

    def commit(self, sequence: int) -> ArchiveCommit:
        """Read a commit by its number.

        :raises UsageError: there is no such commit.
        """
        if not 1 <= sequence <= self.state.sequence:
            raise UsageError(f"there is no commit {sequence}: the archive has {self.state.sequence}")
        return read_commit(self.store, sequence)

    def commits(self, since: int = 0) -> Iterator[ArchiveCommit]:
        """Read all commits after a number, in order.

        This takes long for an old archive.

        :raises DamagedError: one is missing or not what was written.
        """
        return self._read([commit_key(number) for number in range(since + 1, self.state.sequence + 1)])

    def add(self, plan: Callable[[State], Change], *, check: Callable[[], None], fence: str | None) -> ArchiveCommit:
        """Add one commit.

        It reads to the tail, plans, validates, checks the locks, and creates the next number. Where somebody else took
        the number, everything is planned anew from the state that their commit made; where a reply was lost, the same
        bytes are offered for the same number until it is taken, then looked at.

        :param plan: makes the change for a state; called again for every new tail.
        :param check: raises if a lock this work stands under is no longer held.
        :raises RefusedError: the change is not valid in the newest state.
        :raises OutcomeUnknownError: the store never told whether the commit exists; nothing may be cleaned up.
        """
        identity = str(uuid.uuid4())
        while True:
            self.refresh()
            if self.state.cut_off:
                raise DamagedError(self.state.cut_off)
            check_writable(self.state)
            change = plan(self.state)
            validate(self.state, change)
            check()
            commit = self._next(change, identity, fence)
            if not change.executes_entry and change.adopted is None:  # else it was decided elsewhere
                self._check_holds(self.state, commit)
            key, body = commit_key(commit.sequence), commit.to_bytes()
            check_new_document(key, len(body))
            if parse_commit(key, claim(self.store, key, body)).id == identity:
                self.state = self.state.after([commit])
                self._since_checkpoint += 1
                self._write_checkpoint()
                return commit

    @staticmethod
    def _check_holds(state: State, commit: ArchiveCommit) -> None:
        """Refuse a commit that would remove a held restore point."""
        if commit.remove and state.holds:
            from holdfast.archive.history.holds import check_holds

            check_holds(state, state.after([commit]))

    def _write_checkpoint(self) -> None:
        """Write a checkpoint if the last one is far behind.

        The commit counts whether or not this succeeds.
        """
        if self._since_checkpoint >= CHECKPOINT_EVERY and self.state.format >= CHECKPOINTS_SINCE:
            with suppress(StoreError):
                write_checkpoint(self.store, self.identity.id, self.state)
            self._since_checkpoint = 0

    def _next(self, change: Change, identity: str, fence: str | None) -> ArchiveCommit:
        return ArchiveCommit(
            sequence=self.state.sequence + 1,
            id=identity,
            parent=self.state.tip,
            kind=change.kind,
            format=change.format or self.state.format,
            min_reader=max(change.format or 0, self.state.min_reader, _reader_of(change)),
            min_writer=max(change.format or 0, self.state.min_writer, _writer_of(change)),
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
        )


def _writer_of(change: Change) -> int:
    """Return the lowest writer version that a change requires."""
    if change.log is None:
        return 1
    return DECISIONS_SINCE if change.log.acknowledged or change.log.members else REPLICAS_SINCE


def _reader_of(change: Change) -> int:
    """Return the lowest reader version that a change requires."""
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


def claim(store: ObjectStore, key: str, body: bytes) -> bytes:
    """Create `key` unless it exists, and return the stored content.

    After a lost reply, the same bytes are offered again.
    """
    try:
        for attempt in Retrying(
            retry=retry_if_exception_type((StoreOutcomeUnknown, StoreUnavailable)),
            wait=wait_random_exponential(multiplier=0.2, max=10),
            stop=stop_after_attempt(ATTEMPTS),
            sleep=time.sleep,
            reraise=True,
        ):
            with attempt:
                try:
                    store.create(key, body)
                except ObjectExists:
                    return store.get(key)
    except (StoreOutcomeUnknown, StoreUnavailable) as error:
        raise OutcomeUnknownError(
            f"the store did not tell whether {key} was written ({error}). Look with 'holdfast status' before "
            "trying again; nothing was cleaned up."
        ) from error
    return body
