"""A place that becomes an encrypted archive, and what those see who have its key, another, or none."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from holdfast.archive import Archive
from holdfast.common.errors import DamagedError, RefusedError, UsageError
from holdfast.storage import SealedStore, open_store
from holdfast.storage.contract import object_store
from holdfast.storage.encryption.key_source import ENVIRONMENT, new_key
from holdfast.storage.encryption.sealing import MAGIC


def test_an_archive_that_is_created_with_a_key_is_encrypted(store: SealedStore, place: Path) -> None:
    store.put("runs/a/1.json", b"who and what")
    with store.open_write("data/rows") as file:
        file.write(b"rows")
    for name in ("runs/a/1.json", "data/rows"):
        assert (place / name).read_bytes().startswith(MAGIC)
        assert b"rows" not in (place / name).read_bytes()
    assert {info.key: info.size for info in store.list("data/").objects} == {"data/rows": 4}
    assert Archive.open(store).identity.name == "shop"


@pytest.mark.parametrize("write", ["put", "create"])
def test_what_would_be_too_large_once_it_is_sealed_is_not_written(
    store: SealedStore, monkeypatch: pytest.MonkeyPatch, write: str
) -> None:
    monkeypatch.setattr(object_store, "LARGEST_DOCUMENT", 1_000)
    with pytest.raises(RefusedError, match=r"runs/a/1\.json would have 1,\d+ bytes"):
        getattr(store, write)("runs/a/1.json", b"x" * 990)
    assert store.list("runs/").objects == ()


def test_locks_and_what_archive_it_is_can_be_read_by_those_without_a_key(store: SealedStore, place: Path) -> None:
    store.put("locks/history/READ.1", b"me")
    without = open_store(str(place))
    assert without.get("locks/history/READ.1") == b"me"
    assert b"shop" in without.get("archive.json")
    assert [info.size for info in without.list("locks/").objects] == [2]


def test_whoever_has_no_key_is_told_so_and_writes_nothing(store: SealedStore, place: Path) -> None:
    store.put("commits/1", b"one")
    without = open_store(str(place))
    for act in (
        lambda: Archive.open(without),
        lambda: without.get("commits/1"),
        lambda: without.open_read("commits/1"),
        lambda: without.list("commits/"),
        lambda: without.list(""),
        lambda: without.first("checkpoints/", 1),
        lambda: without.head("commits/1"),
        lambda: without.put("data/x", b""),
        lambda: without.create("data/x", b""),
        lambda: without.filesystem(),
        lambda: without.open_write("data/x").__enter__(),
    ):
        with pytest.raises(UsageError, match=f"is encrypted: say where its key is in {ENVIRONMENT}"):
            act()
    assert not (place / "data").exists()


def test_whoever_has_another_key_is_told_so_at_once(store: SealedStore, place: Path, keys: list[str]) -> None:
    with pytest.raises(UsageError, match=r"has the fingerprint \w{16}, but .*archive is opened by the one with \w{16}"):
        Archive.open(open_store(store.url, keys[1]))


def test_the_environment_says_where_the_key_is(
    store: SealedStore, keys: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ENVIRONMENT, keys[0])
    assert Archive.open(open_store(store.url)).identity.name == "shop"
    monkeypatch.setenv(ENVIRONMENT, "file:/nowhere")
    assert Archive.open(open_store(store.url, keys[0])).identity.name == "shop"


def test_an_archive_that_is_not_encrypted_is_refused_where_there_is_a_key_for_it(place: Path, keys: list[str]) -> None:
    """Somebody who can write there may have put it in the place of the encrypted one."""
    Archive.create(open_store(str(place)), name="shop")
    with pytest.raises(UsageError, match="is not encrypted, but there is a key for it"):
        Archive.open(open_store(str(place), keys[0]))


def test_an_archive_whose_keys_are_gone_is_never_written_in_the_clear(store: SealedStore, place: Path) -> None:
    store.put("commits/00000000000000000001.json", b"{}")
    (place / "keys" / "00000001.json").unlink()
    for key in (None, store.key):
        with pytest.raises((UsageError, DamagedError)):
            Archive.open(open_store(str(place), key))


def test_the_key_itself_in_place_of_its_address_is_never_shown(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Archive.create(open_store(str(place)), name="shop")
    secret = new_key().strip()
    for wrong in (secret, f"env:{secret}"):
        monkeypatch.setenv(ENVIRONMENT, wrong)
        for where in (str(place), str(tmp_path / "new")):
            with pytest.raises(UsageError) as refused:
                Archive.create(open_store(where), name="shop")
            assert secret not in str(refused.value)


def test_an_older_format_cannot_be_encrypted(place: Path, keys: list[str]) -> None:
    with pytest.raises(UsageError, match="an archive of format 1 cannot be encrypted"):
        Archive.create(open_store(str(place), keys[0]), name="shop", number=1)
    assert not place.exists()


def test_other_processes_find_the_key_themselves(store: SealedStore) -> None:
    store.put("data/x", b"1")
    sent = pickle.dumps(store)
    ring = store.ring()
    assert ring is not None
    assert not any(key.secret in sent for key in ring.keys.values())
    assert pickle.loads(sent).get("data/x") == b"1"  # noqa: S301 - it is our own


def test_an_object_of_another_name_or_none_of_ours_is_damage(store: SealedStore, place: Path) -> None:
    store.put("data/a", b"1")
    (place / "data" / "b").write_bytes((place / "data" / "a").read_bytes())
    (place / "data" / "c").write_bytes(b"PAR1 in the clear")
    (place / "data" / "d").write_bytes(MAGIC + b"\0\0\0\0" + bytes(100))
    for name, said in [("b", "not those that were written under this name"), ("c", "is not encrypted"), ("d", "key")]:
        with pytest.raises(DamagedError, match=said):
            store.get(f"data/{name}")
        with pytest.raises(DamagedError, match=said), store.open_read(f"data/{name}") as file:
            file.read()


def test_a_file_is_read_in_parts(store: SealedStore) -> None:
    content = bytes(range(256)) * 5000
    with store.open_write("data/large") as file:
        file.write(content)
    with store.open_read("data/large") as file:
        assert file.seek(-10, 2) == len(content) - 10
        assert file.read() == content[-10:]
        file.seek(700_000)
        assert file.read(300_000) == content[700_000:1_000_000]
        file.seek(0)
        assert file.read() == content


FIXTURE = Path(__file__).parents[3] / "fixtures" / "encrypted"
"""Bytes as they were written when encryption began, with two data keys."""


def test_what_was_encrypted_first_stays_readable() -> None:
    store = open_store(str(FIXTURE / "archive"), f"file:{FIXTURE / 'key'}")
    assert Archive.open(store).identity.name == "shop"
    assert (store.get("runs/a/000000.json"), store.get("data/shop/1/x")) == (b"before", b"after")
    ring = store.ring()
    assert ring is not None
    assert len(ring.keys) == 2


def test_who_has_a_key_neither_writes_nor_believes_what_is_in_the_clear_where_a_store_hides_what_is_there(
    keys: list[str], place: Path
) -> None:
    with_key = open_store(str(place), keys[0])
    for act in (
        lambda: with_key.put("runs/a/1.json", b"who"),
        lambda: with_key.create("commits/00000000000000000001.json", b"what"),
        lambda: with_key.touch("data/x", b"rows"),
        lambda: with_key.open_write("data/x").__enter__(),
        lambda: with_key.filesystem(),
    ):
        with pytest.raises(UsageError, match="is not encrypted, but there is a key"):
            act()
    assert not place.exists() or [each for each in place.rglob("*") if each.is_file()] == []
    in_the_clear = open_store(str(place))
    in_the_clear.put("commits/00000000000000000001.json", b"forged")
    in_the_clear.put("data/x", b"forged")
    for read in (lambda: with_key.get("commits/00000000000000000001.json"), lambda: with_key.open_read("data/x")):
        with pytest.raises(UsageError, match="is not encrypted, but there is a key"):
            read()
