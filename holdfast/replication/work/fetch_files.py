"""Transfer of block files from other replicas.

Each file is compared with its checksum on the way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.archive import locks
from holdfast.archive.files.transfer import is_whole, replace_file, send_file
from holdfast.common.errors import DamagedError, HoldfastError, UsageError, sentence
from holdfast.common.side_by_side import do_each
from holdfast.replication.log.consistency_check import open_replica
from holdfast.replication.log.errors import FilesAwayError, MissingFilesError, SilentReplicaError
from holdfast.replication.log.replicas import replicas
from holdfast.replication.log.silence import is_paused, silence_words
from holdfast.replication.log.store import clock
from locking import LockError, Owner
from locking.store import ObjectExists, StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from contextlib import ExitStack

    from holdfast.archive.format.document import FileRecord
    from holdfast.replication.log.log import LogEntry
    from holdfast.replication.log.replicas import ReplicaRow
    from holdfast.replication.work.replica import ReplicatedArchive
    from holdfast.storage import ObjectStore

    Fetch = Callable[[ObjectStore, ObjectStore, Sequence[FileRecord]], tuple[int, int]]
    """How files come from one store to another: takes, returns and raises what `fetch` does."""

_AT_ONCE = 8
"""Files that are on their way."""

_WAIT_S = 120.0
"""For another replica's `history`: a vacuum that has it ends within 30 s."""


_HAS_NOT = (DamagedError, UsageError)
"""Who was read and lacks a file, or has it damaged, or is no archive; any other error is of a replica that is away."""


class Others:
    """Other replicas that can be read now, as sources of files.

    :param reading: what was opened to read them is held until it ends.
    """

    def __init__(self, archive: ReplicatedArchive, reading: ExitStack) -> None:
        self._archive = archive
        self._reading = reading
        self._opened: dict[str, ObjectStore | Exception] = {}
        self._now = 0.0

    def bring(self, entry: LogEntry) -> None:
        """Fetch the files that an entry adds and that are not here.

        :raises FilesAwayError: one that may have them could not be read.
        :raises MissingFilesError: no replica has one of them.
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
        """Return the other replicas in the order to ask them in.

        The one that has made the entry comes first, then those that have executed it, then the others, and lost ones
        last.
        """
        coordination, acting = self._archive.in_use()
        rows, self._now = coordination.run(lambda c: (replicas(c, acting.archive), clock(c)))
        rows = [row for row in rows if row.name != acting.name]
        # Those that are lost come last: what they have still is what was written where its checksum says so.
        return sorted(rows, key=lambda row: (row.is_lost, row.name != entry.appended_by, -row.pointer, row.name))

    def _open(self, row: ReplicaRow) -> ObjectStore | Exception:
        """Return a replica's store, or the error why it cannot be read.

        The store is under the locks of a reader.
        """
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
    """Return what is wrong with a replica, to stand within a sentence."""
    return sentence(error).rstrip(".")


def missing_files(store: ObjectStore, files: Iterable[FileRecord]) -> Iterable[FileRecord]:
    """Yield the files that a store lacks, or has in another size.

    Every other file was checked when it was written.
    """
    by_path = {file.path: file for file in files}
    folders = {path.rpartition("/")[0] + "/" for path in by_path}
    sizes = {item.key: item.size for folder in sorted(folders) for item in store.list(folder).objects}
    return (file for path, file in by_path.items() if sizes.get(path) != file.size)


def fetch(source: ObjectStore, target: ObjectStore, files: Sequence[FileRecord]) -> tuple[int, int]:
    """Copy files from one store to another, several at a time.

    Return their number, and their bytes.

    :raises DamagedError: one is missing, or not what was written: nothing of that one appears.
    """
    for file in send(source, target, files):
        replace_file(source, target, file)
    return len(files), sum(file.size for file in files)


def send(source: ObjectStore, target: ObjectStore, files: Sequence[FileRecord]) -> list[FileRecord]:
    """Copy files to keys that are free, several at a time.

    Return the files that have something else at their key. Nothing is deleted: where a process of this replica goes on
    that was thought to be dead, it does no harm.

    :raises DamagedError: one is missing, or not what was written: nothing of that one appears.
    """

    def bring(file: FileRecord) -> bool:
        try:
            send_file(source, target, file)
        except ObjectExists:  # another process of the same replica was faster, or something else lies there
            return is_whole(target, file)
        return True

    are_there = do_each(bring, files, at_once=_AT_ONCE)
    return [file for file, is_there in zip(files, are_there, strict=True) if not is_there]
