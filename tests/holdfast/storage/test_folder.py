"""What a folder store has to take care of by itself."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from holdfast.common.errors import exit_code_of
from holdfast.storage import (
    ConditionNotSupported,
    FolderStore,
    InvalidKey,
    ObjectExists,
    ObjectNotFound,
    StoreDenied,
    StoreError,
    StoreFull,
    StoreOutcomeUnknown,
    StoreUnavailable,
)
from holdfast.storage.contract.object_store import ObjectTooLarge


@pytest.fixture
def store(tmp_path: Path) -> FolderStore:
    return FolderStore(tmp_path / "archive")


def test_reading_an_absent_folder_creates_nothing(store: FolderStore, tmp_path: Path) -> None:
    assert store.list("").objects == ()
    with pytest.raises(ObjectNotFound):
        store.get("a")
    assert list(tmp_path.iterdir()) == []


def test_listing_leaves_nothing_behind(store: FolderStore, tmp_path: Path) -> None:
    store.put("a", b"")
    store.list("")
    assert [path.name for path in (tmp_path / "archive").iterdir()] == ["a"]


@pytest.mark.parametrize("where", ["a", "a/b"])
def test_a_symbolic_link_is_never_followed(store: FolderStore, tmp_path: Path, where: str) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "b").write_bytes(b"secret")
    root = tmp_path / "archive"
    if where == "a":
        root.mkdir()
        (root / "a").symlink_to(tmp_path / "outside")
    else:
        (root / "a").mkdir(parents=True)
        (root / "a" / "b").symlink_to(tmp_path / "outside" / "b")
    for use in (store.get, store.head, store.delete, store.open_read, lambda key: store.put(key, b"x")):
        with pytest.raises(StoreDenied, match="symbolic link"):
            use("a/b")
    with pytest.raises(StoreError):
        store.list("")
    assert (tmp_path / "outside" / "b").read_bytes() == b"secret"


def test_the_root_itself_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    store = FolderStore(tmp_path / "link")
    store.put("a/b", b"1")
    assert store.get("a/b") == b"1"
    assert store.url == str(tmp_path / "real")


def test_anything_but_files_and_folders_is_not_passed_over(store: FolderStore, tmp_path: Path) -> None:
    store.put("a/b", b"")
    os.mkfifo(tmp_path / "archive" / "a" / "pipe")
    with pytest.raises(StoreError, match="a/pipe"):
        store.list("a/")


def test_a_pipe_is_not_waited_at(store: FolderStore, tmp_path: Path) -> None:
    store.put("a/b", b"")
    os.mkfifo(tmp_path / "archive" / "pipe")
    with pytest.raises(StoreError, match="pipe is no regular file; remove it"):
        store.get("pipe")
    with pytest.raises(ObjectNotFound):
        store.open_read("pipe")


def test_an_object_that_is_larger_than_any_document_is_not_read_into_memory(store: FolderStore, tmp_path: Path) -> None:
    store.put("large", b"")
    with (tmp_path / "archive" / "large").open("r+b") as file:
        file.truncate(1 << 40)
    with pytest.raises(ObjectTooLarge, match=r"large is damaged or not ours: it has 1,099,511,627,776 bytes") as raised:
        store.get("large")
    assert exit_code_of(raised.value) == 4
    assert isinstance(raised.value, StoreError)


def test_temporary_files_are_neither_listed_nor_reachable(store: FolderStore, tmp_path: Path) -> None:
    store.put("a", b"")
    (tmp_path / "archive" / ".holdfast-tmp-left-by-a-crash").write_bytes(b"half")
    assert [info.key for info in store.list("").objects] == ["a"]
    with pytest.raises(InvalidKey):
        store.get(".holdfast-tmp-left-by-a-crash")


def test_the_time_is_the_file_systems_not_ours(store: FolderStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("locking.shared_folder.time.time", lambda: 0.0)
    store.put("a", b"")
    listing = store.list("")
    assert abs(listing.now - datetime.now(UTC)) < timedelta(seconds=5)
    assert listing.objects[0].modified <= listing.now


def test_who_may_not_write_can_still_read(store: FolderStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.put("a", b"1")
    _fail(monkeypatch, "open", errno.EROFS, only_if=lambda flags: bool(flags & os.O_CREAT))
    assert [info.key for info in store.list("").objects] == ["a"]
    assert store.get("a") == b"1"


def test_a_bulk_write_refuses_a_taken_key(store: FolderStore) -> None:
    store.put("a", b"1")
    with pytest.raises(ObjectExists), store.open_write("a"):
        pass
    with pytest.raises(ObjectExists), store.open_write("b"):
        store.put("b", b"meanwhile")
    assert store.get("b") == b"meanwhile"


def test_a_file_that_cannot_be_read_to_its_end_is_told_as_an_error_of_the_store() -> None:
    with (
        FolderStore("/proc/self").open_read("mem") as file,  # nothing is at address 0
        pytest.raises(StoreUnavailable, match=r"Could not read 'mem': .*Input/output error"),
    ):
        file.read(1)


def test_a_key_below_an_object_cannot_be_written_but_is_simply_not_there(store: FolderStore) -> None:
    store.put("a", b"1")
    with pytest.raises(StoreError, match="folder"):
        store.put("a/b", b"")
    with pytest.raises(ObjectNotFound):
        store.get("a/b")
    store.delete("a/b")
    with pytest.raises(ObjectNotFound):
        store.open_read("a/b")


def test_a_folder_is_no_object(store: FolderStore) -> None:
    store.put("a/b", b"1")
    for ask in (store.get, store.head, store.open_read):
        with pytest.raises(ObjectNotFound):
            ask("a")
    with pytest.raises(StoreError):
        store.put("a", b"")
    with pytest.raises(StoreError):
        store.delete("a")


def test_touching_what_is_gone_brings_nothing_back(store: FolderStore) -> None:
    with pytest.raises(ObjectNotFound):
        store.touch("a", b"body")
    assert store.list("").objects == ()


@pytest.mark.parametrize("step", ["fsync", "link"])
def test_a_full_disk_is_said_so_and_leaves_nothing(
    store: FolderStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    store.put("a", b"old")
    _fail(monkeypatch, step, errno.ENOSPC)
    with pytest.raises(StoreFull, match="No room left"):
        store.create("b", b"new")
    assert [path.name for path in (tmp_path / "archive").iterdir()] == ["a"]


def test_a_file_that_may_grow_no_further_leaves_nothing(store: FolderStore, tmp_path: Path) -> None:
    def write_in_bulk() -> None:
        with store.open_write("b") as file:
            for _ in range(20):
                file.write(b"x" * 100_000)

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, hard))
    try:
        with pytest.raises(StoreFull):
            store.put("a", b"x" * (2 << 20))
        with pytest.raises(StoreFull):
            write_in_bulk()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list((tmp_path / "archive").iterdir()) == []


@pytest.mark.parametrize(
    ("number", "error"),
    [
        (errno.EACCES, StoreDenied),
        (errno.EPERM, ConditionNotSupported),
        (errno.EOPNOTSUPP, ConditionNotSupported),
        (errno.EROFS, StoreDenied),
        (errno.ENOSPC, StoreFull),
        (errno.EDQUOT, StoreFull),
        (errno.EIO, StoreOutcomeUnknown),
        (errno.ESTALE, StoreOutcomeUnknown),
        (errno.EXDEV, StoreError),
    ],
)
def test_each_failure_of_a_write_is_told_from_the_others(
    store: FolderStore, monkeypatch: pytest.MonkeyPatch, number: int, error: type[StoreError]
) -> None:
    _fail(monkeypatch, "link", number)
    with pytest.raises(error) as caught:
        store.create("a", b"")
    assert type(caught.value) is error
    assert isinstance(caught.value.__cause__, OSError)


def test_a_name_that_may_not_survive_a_power_failure_is_an_unknown_outcome(
    store: FolderStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = os.fsync, []

    def fail_on_the_folder(descriptor: int) -> None:
        calls.append(descriptor)
        if len(calls) == 2:
            raise OSError(errno.EIO, "Input/output error")
        real(descriptor)

    store.put("x", b"")
    monkeypatch.setattr(os, "fsync", fail_on_the_folder)
    with pytest.raises(StoreOutcomeUnknown, match="power failure"):
        store.create("a", b"")


def test_a_read_that_fails_may_be_tried_again(store: FolderStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.put("a", b"")

    def fail(path: str, flags: int) -> int:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", fail)
        with pytest.raises(StoreUnavailable):
            store.get("a")


def test_a_link_that_was_made_although_its_answer_was_lost_counts(
    store: FolderStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.link

    def link_twice(source: str, target: str) -> None:
        real(source, target)
        real(source, target)

    monkeypatch.setattr(os, "link", link_twice)
    store.create("a", b"1")
    assert store.get("a") == b"1"


def _fail(
    monkeypatch: pytest.MonkeyPatch, name: str, number: int, only_if: Callable[[int], bool] = lambda flags: True
) -> None:
    real = getattr(os, name)

    def fail(*arguments: object) -> object:
        flags = arguments[1] if len(arguments) > 1 and isinstance(arguments[1], int) else 0
        if only_if(flags):
            raise OSError(number, os.strerror(number))
        return real(*arguments)

    monkeypatch.setattr(os, name, fail)


def test_folders_that_are_empty_after_a_deletion_are_removed(store: FolderStore, tmp_path: Path) -> None:
    for key in ("a/b/c/1", "a/b/c/2", "a/d/1", "e/f/1"):
        store.put(key, b"")
    assert store.delete_many(["a/b/c/1", "a/b/c/2", "e/f/1"]) == {}
    root = tmp_path / "archive"
    assert sorted(str(path.relative_to(root)) for path in root.rglob("*")) == ["a", "a/d", "a/d/1"]


@pytest.mark.parametrize("way", ["put", "open_write"])
def test_a_folder_that_is_removed_before_a_file_is_in_it_is_made_again(
    store: FolderStore, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    left, link = [2], Path.hardlink_to

    def remove_first(path: Path, target: Path) -> None:
        if left[0]:
            left[0] -= 1
            store.delete_many(["a/b/c/first"])  # was there never, but its folder goes
        link(path, target)

    monkeypatch.setattr(Path, "hardlink_to", remove_first)
    if way == "put":
        store.create("a/b/c/second", b"2")
    else:
        with store.open_write("a/b/c/second") as file:
            file.write(b"2")
    assert store.get("a/b/c/second") == b"2"
    assert left == [0]


def test_what_may_not_be_deleted_is_named_and_the_others_go(
    store: FolderStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key in ("a/1", "a/2", "a/3"):
        store.put(key, b"")
    unlink = Path.unlink

    def deny_one(path: Path, missing_ok: bool = False) -> None:
        if path.name == "2":
            raise PermissionError(errno.EACCES, "Permission denied")
        unlink(path, missing_ok)

    monkeypatch.setattr(Path, "unlink", deny_one)
    errors = store.delete_many(["a/1", "a/2", "a/3"])
    assert {key: type(error) for key, error in errors.items()} == {"a/2": StoreDenied}
    assert [info.key for info in store.list("").objects] == ["a/2"]
