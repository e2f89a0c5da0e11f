"""What every store promises, on each of them."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from holdfast.storage import InvalidKey, ObjectExists, ObjectNotFound, ObjectStore, SealedStore
from holdfast.storage.azure.store import AzureStore
from holdfast.storage.contract.object_store import ObjectChanged
from holdfast.storage.encryption.key_source import new_key
from holdfast.storage.encryption.keyring import KEYS
from holdfast.storage.gcs.store import GcsStore
from holdfast.storage.s3.store import S3Store
from locking.store import TooManyObjects


def _each_kind(*, dear: bool = False) -> Iterator[object]:
    """Yield parameters of the fixture `store`; of a dear test, those of folders and S3 for `make test`."""
    for kind in ("folder", "s3", "azure", "gcs"):
        marks = [pytest.mark.service] if kind != "folder" else []
        marks += [pytest.mark.exhaustive] if dear and kind in ("azure", "gcs") else []
        yield pytest.param((kind, False), id=kind, marks=marks)
        # Encryption asks a store for nothing but what the contract promises.
        further = [pytest.mark.exhaustive] if kind != "folder" else []
        yield pytest.param((kind, True), id=f"{kind}-encrypted", marks=[*marks, *further])


@pytest.fixture(params=[*_each_kind()])
def store(request: pytest.FixtureRequest, open_empty: Callable[[str], ObjectStore], tmp_path: Path) -> ObjectStore:
    """Each store, and each of them as the place of an encrypted archive."""
    kind, encrypted = request.param
    opened = open_empty(kind)
    if not encrypted:
        return opened
    (tmp_path / "key").write_text(new_key())
    sealed = SealedStore(opened, f"file:{tmp_path / 'key'}")
    sealed.begin()
    return sealed


def keys(store: ObjectStore, prefix: str = "", *, start_after: str = "") -> list[str]:
    found = [info.key for info in store.list(prefix, start_after=start_after).objects]
    return [key for key in found if not key.startswith(KEYS)]


def test_what_was_put_is_read_back(store: ObjectStore) -> None:
    store.put("commits/1.json", b"one")
    assert store.get("commits/1.json") == b"one"
    store.put("commits/1.json", b"")
    assert store.get("commits/1.json") == b""


def test_create_takes_a_free_key_once(store: ObjectStore) -> None:
    store.create("commits/1.json", b"first")
    with pytest.raises(ObjectExists):
        store.create("commits/1.json", b"second")
    assert store.get("commits/1.json") == b"first"


def test_a_key_is_free_again_after_its_object_was_deleted(store: ObjectStore) -> None:
    store.create("a/b", b"1")
    store.delete("a/b")
    store.create("a/b", b"2")
    assert store.get("a/b") == b"2"


def test_a_reader_never_sees_a_part_of_a_small_object(store: ObjectStore) -> None:
    bodies = [bytes([letter]) * 200_000 for letter in b"xy"]
    store.put("k", bodies[0])
    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(lambda: [store.put("k", bodies[n % 2]) for n in range(20)])
        seen = {store.get("k") for _ in range(20)}
        while not writing.done():
            seen.add(store.get("k"))
        writing.result()
    assert seen <= set(bodies)


def test_what_is_not_there_is_said_so(store: ObjectStore) -> None:
    for ask in (store.get, store.head, store.open_read):
        with pytest.raises(ObjectNotFound, match="no/such"):
            ask("no/such")


def test_deleting_is_idempotent(store: ObjectStore) -> None:
    store.put("a", b"")
    store.delete("a")
    store.delete("a")
    store.delete("b/c")
    assert keys(store) == []


def test_many_are_deleted_at_once_and_what_is_not_there_counts_as_deleted(store: ObjectStore) -> None:
    names = [f"data/{number // 7}/{number}-ü &<b>" for number in range(40)]
    for name in (*names, "data/0/kept", "data/00"):
        store.put(name, b"1")
    assert store.delete_many([*names, "data/none", "none/at/all"]) == {}
    assert keys(store) == ["data/0/kept", "data/00"]
    assert store.delete_many([]) == {}
    store.put(names[-1], b"2")
    assert store.get(names[-1]) == b"2"


def test_many_objects_are_deleted_as_one_is(store: ObjectStore) -> None:
    names = [f"locks/r/DEAD.{number}" for number in range(20)]
    for name in (*names, "locks/r/WRIT.1"):
        store.put(name, b"1")
    assert store.delete_each([*names, "locks/none"]) == {}
    assert keys(store) == ["locks/r/WRIT.1"]
    assert store.delete_each([]) == {}


def test_a_listing_is_recursive_and_ordered_by_key(store: ObjectStore) -> None:
    names = ["data/10", "data/9", "data/a-b/x", "data/a/z", "data/a.b", "z", "data/ä"]
    for name in names:
        store.put(name, name.encode())
    assert keys(store) == sorted(names)
    assert keys(store, "data/a") == ["data/a-b/x", "data/a.b", "data/a/z"]
    assert keys(store, "data/a/") == ["data/a/z"]
    assert keys(store, "nothing/here/") == []


def test_a_listing_starts_after_a_key(store: ObjectStore) -> None:
    for name in ("a/1", "a/2", "a/3", "b/1"):
        store.put(name, b"")
    assert keys(store, start_after="a/2") == ["a/3", "b/1"]
    assert keys(store, "a/", start_after="a/2") == ["a/3"]
    assert keys(store, "a/", start_after="a/25") == ["a/3"]
    assert keys(store, start_after="a") == ["a/1", "a/2", "a/3", "b/1"]


def test_the_first_of_a_listing_are_told_alone(store: ObjectStore) -> None:
    for key in ("box/3", "box/1", "box/2/a", "other"):
        store.put(key, b"x" * len(key))
    assert [(found.key, found.size) for found in store.first("box/", 2)] == [("box/1", 5), ("box/2/a", 7)]
    assert store.first("box/", 9) == store.list("box/").objects
    assert store.first("nothing/", 1) == ()


@pytest.mark.service
@pytest.mark.parametrize("kind", ["s3", "azure", "gcs"])
def test_the_placeholder_of_a_folder_is_no_object(kind: str, open_empty: Callable[[str], ObjectStore]) -> None:
    """Consoles make one for each new folder, also for the one that is to become an archive."""
    store = open_empty(kind)
    for folder in ("", "commits/", "commits/old/"):
        write_placeholder(store, folder)
    assert keys(store) == []
    assert store.first("commits/", 1) == ()
    store.put("commits/1", b"one")
    write_placeholder(store, "commits/")
    assert keys(store) == ["commits/1"]
    assert keys(store, "commits/", start_after="commits/0") == ["commits/1"]
    assert [info.key for info in store.first("commits/", 1)] == ["commits/1"]


def write_placeholder(store: ObjectStore, folder: str) -> None:
    """Write the empty object of a folder, whose key no store of ours takes."""
    _, name, path = urlsplit(store.url)[:3]
    key = f"{path.strip('/')}/{folder}"
    if isinstance(store, S3Store):
        store._access.writer.put_object(Bucket=name, Key=key, Body=b"")
    elif isinstance(store, AzureStore):
        store._container.upload_blob(key, b"", overwrite=True)
    elif isinstance(store, GcsStore):
        store._bucket.blob(key).upload_from_string(b"")


@pytest.mark.parametrize("store", [*_each_kind(dear=True)], indirect=True)
def test_a_long_listing_is_complete(store: ObjectStore) -> None:
    names = [f"many/{number:05d}" for number in range(1100)]
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda name: store.put(name, b""), names))
    assert keys(store, "many/") == names


def test_an_empty_store_lists_nothing_and_tells_the_time(store: ObjectStore) -> None:
    listing = store.list("locks/")
    assert listing.objects == ()
    assert abs(listing.now - datetime.now(UTC)) < timedelta(seconds=5)


def test_times_are_the_stores_own_and_aware(store: ObjectStore) -> None:
    before = store.list("").now
    store.put("a", b"12345")
    listing = store.list("a")
    (info,) = listing.objects
    second = timedelta(seconds=1)
    assert before - second <= info.modified <= listing.now + second
    assert (info.size, info.modified.tzinfo) == (5, UTC) or info.modified.utcoffset() == timedelta(0)
    assert store.head("a").modified.replace(microsecond=0) == info.modified.replace(microsecond=0)
    assert store.head("a").size == 5


def test_touching_makes_an_object_younger_and_keeps_its_content(store: ObjectStore) -> None:
    store.put("a", b"same")
    first = store.head("a").modified
    time.sleep(1.1)  # the coarsest clock of a store counts whole seconds
    store.touch("a", b"same")
    assert store.head("a").modified > first
    assert store.get("a") == b"same"


def test_bulk_data_is_written_and_read_as_a_file(store: ObjectStore) -> None:
    block = bytes(range(256)) * 4096
    with store.open_write("data/1/big") as file:
        for _ in range(12):
            file.write(block)
    with store.open_read("data/1/big") as read:
        read.seek(256)
        assert read.read(4) == b"\0\1\2\3"
    assert store.head("data/1/big").size == 12 * len(block)


def test_parquet_goes_through_both_ways(store: ObjectStore) -> None:
    table = pa.table({"n": list(range(1000))})
    with store.open_write("data/t.parquet") as file:
        pq.write_table(table, file)
    with store.open_read("data/t.parquet") as read:
        assert pq.read_table(read).equals(table)
    filesystem, root = store.filesystem()
    assert pq.read_table(f"{root}/data/t.parquet", filesystem=filesystem).equals(table)


def test_an_object_that_goes_while_it_is_read_is_read_on_or_told_as_gone(store: ObjectStore) -> None:
    body = bytes(4 << 20)
    store.put("data/large", body)
    said = ""
    with store.open_read("data/large") as file:
        store.delete("data/large")
        try:
            found = file.read()  # what is open stays, in a folder
        except (ObjectNotFound, ObjectChanged) as error:
            found, said = b"", str(error)
    assert found == body or "data/large" in said


def test_a_listing_ends_after_so_many_objects_where_there_are_more(store: ObjectStore) -> None:
    for number in range(4):
        store.put(f"locks/a/{number}", b"")
    assert len(store.list("locks/a/", most=4).objects) == 4
    assert len(store.list("locks/a/", start_after="locks/a/0", most=3).objects) == 3
    with pytest.raises(TooManyObjects, match=r"^locks/a/ has more than 3 objects, and no more are read there"):
        store.list("locks/a/", most=3)


def test_nothing_stays_of_a_write_that_failed(store: ObjectStore) -> None:
    def write_half() -> None:
        with store.open_write("data/half") as file:
            file.write(b"x" * 100)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_half()
    assert keys(store) == []
    with pytest.raises(ObjectNotFound):
        store.get("data/half")


def test_nothing_is_seen_of_a_write_that_is_under_way(store: ObjectStore) -> None:
    with store.open_write("data/x") as file:
        file.write(b"x" * 100)
        assert keys(store) == []
    assert keys(store) == ["data/x"]


def test_a_pickled_store_opens_the_same_place(store: ObjectStore) -> None:
    store.put("a", b"1")
    twin: ObjectStore = pickle.loads(pickle.dumps(store))  # noqa: S301 - our own bytes
    assert twin.url == store.url
    assert twin.get("a") == b"1"


def test_the_probe_finds_create_if_absent_and_leaves_nothing(store: ObjectStore) -> None:
    assert store.probe_create_if_absent() is True
    assert keys(store) == []


def test_a_key_that_could_mislead_is_refused(store: ObjectStore) -> None:
    """Which ones do, contract/test_keys.py shows."""
    key = "a/../b"
    for use in (store.get, store.head, store.delete, store.open_read, lambda k: store.put(k, b"")):
        with pytest.raises(InvalidKey):
            use(key)
    with pytest.raises(InvalidKey), store.open_write(key):
        pass
    with pytest.raises(InvalidKey):
        store.list("a/../")


def test_keys_with_unusual_letters_come_back_as_they_were(store: ObjectStore) -> None:
    names = ["a b", "a+b", "a%20b", "ü/ñ", "日本", "q?x=1&y", "semi;colon", "...", "it's"]
    for name in names:
        store.put(name, name.encode())
    assert keys(store) == sorted(names)
    assert [store.get(name) for name in names] == [name.encode() for name in names]
    assert all(left < right for left, right in pairwise(keys(store)))
