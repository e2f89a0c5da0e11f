"""The rotation of an archive's keys, and the commit that makes it known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.archive.archive import Archive
from holdfast.archive.format.state import Change
from holdfast.archive.maintenance.copy_archive import is_copy

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.archive.format.model import ArchiveCommit
    from holdfast.storage import SealedStore


def rotate_keys(store: SealedStore, key: str, *, check: Callable[[], None], fence: str | None) -> ArchiveCommit | None:
    """Exchange the keys of an archive, and add a commit that is sealed with the new data key.

    By that commit it is noticed where the former keys are put back: they do not open it. A copy gets none, since it
    takes its commits from its source: there the next one that it takes does the same.

    :param key: address of the key that opens the archive from now on.
    :param check: raises if the lock `format` is no longer held.
    :raises UsageError: the archive is signed, and there is no key to sign with; nothing is changed.
    """
    archive = Archive.open(store)
    if is_copy(archive):
        store.renew(key)
        return None
    archive.check_may_add()
    check()
    store.renew(key)
    return archive.add(lambda _: Change(kind="key-rotation"), check=check, fence=fence)
