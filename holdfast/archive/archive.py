"""An archive: created once, opened by reading its commits, changed only by adding one."""

from __future__ import annotations

import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from holdfast.archive.model import FORMAT, WRITER, Commit, Identity, read_versions
from holdfast.archive.state import Change, State, check_readable, check_writable, validate
from holdfast.errors import DamagedError, OutcomeUnknownError, RefusedError, UsageError
from locking.store import ObjectExists, ObjectNotFound, StoreOutcomeUnknown, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.storage import ObjectStore

IDENTITY_KEY = "archive.json"
COMMITS = "commits/"
_ATTEMPTS = 8
_READERS = 8


def commit_key(sequence: int) -> str:
    """Return the key of a commit; twenty digits, so that listings are in order."""
    return f"{COMMITS}{sequence:020d}.json"


@dataclass
class Archive:
    """One opened archive. `state` is as of the last `refresh()`."""

    store: ObjectStore
    identity: Identity
    state: State
    commits: tuple[Commit, ...]

    @classmethod
    def create(cls, store: ObjectStore, *, name: str) -> Archive:
        """Create an archive in an empty place.

        :raises UsageError: there is an archive already, or other objects.
        :raises RefusedError: the store cannot create an object only if it is absent.
        """
        _refuse_used_place(store)
        if not store.probe_create_if_absent():
            raise RefusedError(
                f"{store.url} let several requests create the same object at once, so two backups could "
                "overwrite each other's commits. Use a store with conditional writes (If-None-Match)."
            )
        now = store.list(IDENTITY_KEY).now
        identity = Identity(id=str(uuid.uuid4()), name=name, created=now, format=FORMAT, writer=WRITER)
        try:
            store.create(IDENTITY_KEY, identity.to_bytes())
        except ObjectExists as error:
            raise UsageError(f"{store.url} has just become an archive by somebody else's hand") from error
        return cls.open(store)

    @classmethod
    def open(cls, store: ObjectStore) -> Archive:
        """Open an archive: read its identity and all its commits.

        :raises UsageError: there is no archive, or it needs a newer release.
        :raises DamagedError: the identity or a commit is missing, cut or not what it should be.
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
        archive = cls(store, Identity.from_bytes(body, IDENTITY_KEY), State(), ())
        archive.refresh()
        return archive

    def refresh(self) -> None:
        """Read on to the newest commit."""
        keys = self._new_keys()
        with ThreadPoolExecutor(_READERS) as pool:
            for key, body in zip(keys, pool.map(self.store.get, keys), strict=True):
                self._advance(key, body)

    def _new_keys(self) -> Sequence[str]:
        after = commit_key(self.state.sequence) if self.state.sequence else ""
        keys = [found.key for found in self.store.list(COMMITS, start_after=after).objects]
        for expected, key in enumerate(keys, self.state.sequence + 1):
            if key != commit_key(expected):
                raise DamagedError(
                    f"commit {expected} is missing: found {key} where {commit_key(expected)} should be. "
                    "Restore the commits folder from a copy of the archive."
                )
        return keys

    def _advance(self, key: str, body: bytes) -> None:
        check_readable(read_versions(body, key), key)
        commit = Commit.from_bytes(body, key)
        if commit_key(commit.sequence) != key:
            raise DamagedError(
                f"{key} holds commit {commit.sequence}: it was exchanged for another one. "
                "Restore this object from a copy of the archive."
            )
        self.state = self.state.apply(commit)
        self.commits += (commit,)

    def commit(self, sequence: int) -> Commit:
        """Return a commit by its number.

        :raises UsageError: there is no such commit.
        """
        if not 1 <= sequence <= len(self.commits):
            raise UsageError(f"there is no commit {sequence}: the archive has {len(self.commits)}")
        return self.commits[sequence - 1]

    def add(self, plan: Callable[[State], Change], *, check: Callable[[], None], fence: str | None) -> Commit:
        """Make one commit: read to the tail, plan, validate, check the locks, create the next number.

        Where somebody else took the number, everything is planned anew from the state that their
        commit made; where a reply was lost, the same bytes are offered for the same number until it
        is taken, then looked at.

        :param plan: makes the change for a state; called again for every new tail.
        :param check: raises if a lock this work stands under is no longer held.
        :raises RefusedError: the change is not valid in the newest state.
        :raises OutcomeUnknownError: the store never told whether the commit exists; nothing may be cleaned up.
        """
        identity = str(uuid.uuid4())
        while True:
            self.refresh()
            check_writable(self.state)
            change = plan(self.state)
            validate(self.state, change)
            check()
            commit = self._next(change, identity, fence)
            body = _claim(self.store, commit_key(commit.sequence), commit.to_bytes())
            if Commit.from_bytes(body, commit_key(commit.sequence)).id == identity:
                self._advance(commit_key(commit.sequence), body)
                return commit

    def _next(self, change: Change, identity: str, fence: str | None) -> Commit:
        return Commit(
            sequence=self.state.sequence + 1,
            id=identity,
            parent=self.state.tip,
            kind=change.kind,
            format=self.state.format,
            min_reader=self.state.min_reader,
            min_writer=self.state.min_writer,
            fence=fence,
            committed_at=self.store.list(IDENTITY_KEY).now,
            writer=WRITER,
            add=change.add,
            remove=change.remove,
            abandoned=change.abandoned,
        )


def _refuse_used_place(store: ObjectStore) -> None:
    there = [found.key for found in store.list("").objects if not found.key.startswith("probes/")]
    if IDENTITY_KEY in there:
        raise UsageError(f"{store.url} is an archive already")
    if there:
        raise UsageError(
            f"{store.url} is not empty (it holds {there[0]} and {len(there) - 1} more): "
            "an archive wants a place of its own"
        )


def _claim(store: ObjectStore, key: str, body: bytes) -> bytes:
    """Create `key` unless it is taken, through lost replies; return what is there in the end."""
    try:
        for attempt in Retrying(
            retry=retry_if_exception_type((StoreOutcomeUnknown, StoreUnavailable)),
            wait=wait_random_exponential(multiplier=0.2, max=10),
            stop=stop_after_attempt(_ATTEMPTS),
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
