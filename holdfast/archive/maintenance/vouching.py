"""The commit that begins the signing of an archive, or goes over to other signers."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

from holdfast.archive.archive import Archive
from holdfast.archive.format.state import Change

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.archive.format.model import ArchiveCommit
    from holdfast.archive.format.state import State
    from holdfast.storage import ObjectStore


_MARKS: Final = "marks/"


def vouch(store: ObjectStore, *, check: Callable[[], None], fence: str | None, reason: str = "") -> ArchiveCommit:
    """Add a signed commit that vouches for all commits before it, the identity, and pending marks.

    All of them are read. From then on, every object has to be signed.

    :raises UsageError: there is no key to sign with.
    :raises DamagedError: a commit is missing, or not what was written.
    """
    archive = Archive.open(store, before_signing=True)

    def plan(_: State) -> Change:
        checksums = {commit.sequence: commit.own_checksum for commit in archive.commits()}
        vouched = tuple(checksums.get(number, "") for number in range(1, archive.state.sequence + 1))
        documents = {**archive.documents, **_marks(store)}
        return Change(kind="signing", vouches=vouched, documents=documents, reason=reason)

    return archive.add(plan, check=check, fence=fence)


def _marks(store: ObjectStore) -> dict[str, str]:
    keys = [listed.key for listed in store.list(_MARKS).objects]
    return {key: hashlib.sha256(store.read(key).body).hexdigest() for key in keys}
