"""A folder as a store of locks: what it answers, what it refuses, and who it shuts out."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from holdfast.storage import open_store
from locking import LockBusy, Mutex, RWLock, SharedFolder, inspect
from locking.store import ObjectNotFound, StoreDenied, StoreError, StoreOutcomeUnknown, StoreUnavailable


@pytest.fixture
def folder(tmp_path: Path) -> SharedFolder:
    return SharedFolder(tmp_path / "new" / "shared")


def test_what_is_put_is_listed_read_touched_and_deleted(folder: SharedFolder) -> None:
    folder.put("locks/a/WRIT.1", b"one")
    folder.put("locks/a/WRIT.1", b"other")
    folder.put("locks/ab/WRIT.2", b"")
    listing = folder.list("locks/a/")
    (info,) = listing.objects
    assert (info.key, info.size, folder.get(info.key)) == ("locks/a/WRIT.1", 5, b"other")
    assert [each.key for each in folder.list("").objects] == ["locks/a/WRIT.1", "locks/ab/WRIT.2"]
    os.utime(folder._path(info.key), (0, 0))
    (old,) = folder.list("locks/a/").objects
    assert (listing.now - old.modified).total_seconds() > 1e9
    folder.touch(info.key, b"other")
    (touched,) = folder.list("locks/a/").objects
    assert touched.modified >= info.modified
    for _ in range(2):
        folder.delete(info.key)
    assert folder.list("locks/a/").objects == ()
    with pytest.raises(ObjectNotFound):
        folder.touch(info.key, b"")
    with pytest.raises(ObjectNotFound):
        folder.get(info.key)


@pytest.mark.parametrize("key", ["../elsewhere/WRIT.1", "locks/../../WRIT.1", "/elsewhere/WRIT.1"])
def test_a_key_that_leads_out_of_the_folder_is_refused(folder: SharedFolder, key: str) -> None:
    for act in (folder.get, folder.delete, lambda key: folder.put(key, b""), lambda key: folder.touch(key, b"")):
        with pytest.raises(StoreDenied, match="is outside of"):
            act(key)


@pytest.mark.parametrize(
    ("number", "reading", "writing"),
    [
        ("EACCES", StoreDenied, StoreDenied),
        ("EROFS", StoreDenied, StoreDenied),
        ("EIO", StoreUnavailable, StoreOutcomeUnknown),
        ("ESTALE", StoreUnavailable, StoreOutcomeUnknown),
        ("ENOSPC", StoreUnavailable, StoreError),
    ],
)
def test_an_error_of_the_system_says_whether_something_may_have_happened(
    folder: SharedFolder,
    monkeypatch: pytest.MonkeyPatch,
    number: str,
    reading: type[StoreError],
    writing: type[StoreError],
) -> None:
    import errno

    folder.put("locks/a/WRIT.1", b"")

    def fail(*_: object, **__: object) -> None:
        raise OSError(getattr(errno, number), number)

    with monkeypatch.context() as patch:
        patch.setattr(os, "scandir", fail)
        with pytest.raises(reading) as caught:
            folder.list("locks/a/")
        assert type(caught.value) is reading
    with monkeypatch.context() as patch:
        patch.setattr(os, "utime", fail)
        with pytest.raises(writing) as caught:
            folder.touch("locks/a/WRIT.1", b"")
        assert type(caught.value) is writing
    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", fail)
        with pytest.raises(writing) as caught:
            folder.put("locks/a/WRIT.1", b"new")
        assert type(caught.value) is writing
    assert folder.get("locks/a/WRIT.1") == b""
    assert [info.key for info in folder.list("").objects] == ["locks/a/WRIT.1"]
    assert list(folder._root.glob(".holdfast-tmp-*")) == []


def test_locks_of_both_kinds_of_folder_shut_each_other_out(tmp_path: Path) -> None:
    """What an archive's folder and a stranger's program see of each other."""
    archive, stranger = open_store(str(tmp_path / "both")), SharedFolder(tmp_path / "both")
    for one, other in ((archive, stranger), (stranger, archive)):
        with RWLock(one, "history").read(wait=0, purpose="reading") as lease:
            with pytest.raises(LockBusy, match="for reading"):
                Mutex(other, "history").acquire(wait=0)
            RWLock(other, "history").read(wait=0).release()
            assert [info.txn for info in inspect(other)] == [lease.txn]
            lease.renew()
            lease.check()
    with Mutex(stranger, "history").acquire(wait=0) as first:
        token = first.token()
    with Mutex(archive, "history").acquire(wait=0) as second:
        assert second.token() > token
