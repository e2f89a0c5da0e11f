"""Keys of commits, and reading a commit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.archive.format.checksum import checksum_of
from holdfast.archive.format.model import ArchiveCommit
from holdfast.archive.format.state import check_readable
from holdfast.archive.format.versions import read_versions
from holdfast.common.errors import DamagedError
from locking.store import ObjectNotFound

if TYPE_CHECKING:
    from holdfast.storage import ObjectStore
    from holdfast.storage.contract.object_store import StoredDocument

COMMITS: Final = "commits/"


def commit_key(sequence: int) -> str:
    """Return the key of a commit, with twenty digits, so that listings are in order."""
    return f"{COMMITS}{sequence:020d}.json"


def number_of(key: str) -> int | None:
    """Return the number of the commit with a key; None: it is not the key of a commit."""
    name = key.removeprefix(COMMITS).removesuffix(".json")
    return int(name) if name.isdecimal() and commit_key(int(name)) == key else None


def parse_commit(key: str, body: bytes) -> ArchiveCommit:
    """Return the commit stored under a key; UsageError: a newer release is needed; DamagedError: it is another."""
    if not body:
        raise empty_commit(key)
    check_readable(read_versions(body, key), key)
    commit = ArchiveCommit.from_bytes(body, key).model_copy(update={"own_checksum": checksum_of(body)})
    if commit_key(commit.sequence) != key:
        raise DamagedError(
            f"{key} holds commit {commit.sequence}: it was exchanged for another one. "
            "Restore this object from a copy of the archive."
        )
    return commit


def read_commit(store: ObjectStore, sequence: int) -> ArchiveCommit:
    """Read one commit, signed or not; DamagedError: it is not there, or not what was written."""
    return parse_commit(commit_key(sequence), read_stored(store, sequence).body)


def read_stored(store: ObjectStore, sequence: int) -> StoredDocument:
    try:
        return store.read(commit_key(sequence))
    except ObjectNotFound as error:
        raise missing_commit(sequence) from error


def empty_commit(key: str) -> DamagedError:
    return DamagedError(
        f"{key} is empty: it was damaged, or a write that the store refused has left it. Restore this object from a "
        "copy of the archive; where no copy has the commit, 'holdfast accept --void' gives the number up."
    )


def missing_commit(sequence: int, found: str = "") -> DamagedError:
    """Return the error for a missing commit, where the next one that is there is `found`."""
    instead = f": found {found} where {commit_key(sequence)} should be" if found else ""
    return DamagedError(
        f"commit {sequence} is missing{instead}. Restore the commits folder from a copy of the archive."
    )


def missing_commits(first: int, last: int) -> DamagedError:
    """Return the error for a span of missing commits: one, however many they are."""
    if first == last:
        return missing_commit(first)
    return DamagedError(
        f"commits {first} to {last} are missing, or {commit_key(last + 1)} is not ours. Restore the commits folder "
        "from a copy of the archive, or remove that object if it is not needed."
    )
