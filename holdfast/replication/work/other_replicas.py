"""Other replicas as sources of an entry's files; each file is compared with its checksum on the way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.archive import locks
from holdfast.archive.files.transfer import missing_files
from holdfast.common.errors import DamagedError, HoldfastError, UsageError, sentence
from holdfast.replication.log.consistency_check import open_replica
from holdfast.replication.log.errors import FilesAwayError, MissingFilesError, SilentReplicaError
from holdfast.replication.log.replicas import replicas
from holdfast.replication.log.silence import is_paused, silence_words
from holdfast.replication.log.store import clock
from locking import LockError, Owner
from locking.store import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import ExitStack

    from holdfast.archive.format.document import FileRecord
    from holdfast.replication.log.log import LogEntry
    from holdfast.replication.log.replicas import ReplicaRow
    from holdfast.replication.work.replica import ReplicatedArchive
    from holdfast.storage import ObjectStore

    Fetch = Callable[[ObjectStore, ObjectStore, Sequence[FileRecord]], tuple[int, int]]
    """How files come from one store to another: takes, returns and raises what `fetch_files` does."""

_WAIT_S = 120.0
"""For another replica's `history`: a vacuum that has it ends within 30 s."""


_HAS_NOT = (DamagedError, UsageError)
"""Who was read and lacks a file, or has it damaged, or is no archive; any other error is of a replica that is away."""


class OtherReplicas:
    """Other replicas that can be read now, as sources of files; `reading` holds their locks."""

    def __init__(self, archive: ReplicatedArchive, reading: ExitStack) -> None:
        self._archive = archive
        self._reading = reading
        self._opened: dict[str, ObjectStore | Exception] = {}
        self._now = 0.0

    def bring(self, entry: LogEntry) -> None:
        """Fetch the files that an entry adds and that are not here.

        :raises FilesAwayError, MissingFilesError: a replica that may have one cannot be read; or none has it.
        """
        missing = list(
            missing_files(self._archive.store, (file for block in entry.change.add for file in block.files()))
        )
        if not missing:
            return
        refused: dict[str, Exception] = {}
        for row in self._rows(entry):
            store = self._open(row)
            if isinstance(store, Exception):
                refused[row.name] = store
                continue
            try:
                files, size = self._archive.fetch(store, self._archive.store, missing)
            except (DamagedError, StoreError) as error:
                refused[row.name] = error
                missing = list(missing_files(self._archive.store, missing))
                continue
            self._archive.fetched = (self._archive.fetched[0] + files, self._archive.fetched[1] + size)
            return
        said = "; ".join(f"{name}: {_why(error)}" for name, error in refused.items()) or "there is no other one"
        is_away = any(not isinstance(error, _HAS_NOT) for error in refused.values())
        raise (FilesAwayError if is_away else MissingFilesError)(
            f"no replica could give {missing[0].path}, which entry {entry.index} (of {entry.appended_by}) adds: "
            f"{said}. It is tried again by the next sync. If its files are gone for good: 'holdfast replica give-up "
            f"{entry.index} --dry-run' says what would be lost",
            entry.index,
        )

    def _rows(self, entry: LogEntry) -> list[ReplicaRow]:
        """Return the others: the entry's author first, then those that have executed it, lost ones last."""
        coordination, acting = self._archive.in_use()
        rows, self._now = coordination.run(lambda c: (replicas(c, acting.archive), clock(c)))
        rows = [row for row in rows if row.name != acting.name]
        # Those that are lost come last: what they have still is what was written where its checksum says so.
        return sorted(rows, key=lambda row: (row.is_lost, row.name != entry.appended_by, -row.pointer, row.name))

    def _open(self, row: ReplicaRow) -> ObjectStore | Exception:
        """Return a replica's store under a reader's locks, or the error why it cannot be read."""
        if row.name not in self._opened and is_paused(row, self._now):
            return SilentReplicaError(silence_words(row, self._now))
        if row.name not in self._opened:
            try:
                store = self._archive.places(row.url)
                # Nothing is written, not even a lock, where something else lies.
                open_replica(store, self._archive.identity.id, row.name)
                self._reading.enter_context(
                    locks.acquire(store, "source-side", owner=Owner(), purpose="sync of a replica", wait=_WAIT_S)
                )
                self._opened[row.name] = store
            except (HoldfastError, LockError, StoreError) as error:
                self._opened[row.name] = error
        return self._opened[row.name]


def _why(error: Exception) -> str:
    return sentence(error).rstrip(".")
