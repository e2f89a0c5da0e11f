"""A place that becomes an encrypted archive, and what those see who have its key, another, or none."""

from __future__ import annotations

import json
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.archive import Archive
from holdfast.common.errors import DamagedError, HoldfastError, RefusedError, UsageError
from holdfast.storage import FolderStore, SealedStore, open_store
from holdfast.storage.encryption.key_source import ENVIRONMENT, new_key
from holdfast.storage.encryption.keyring import renew_ring
from holdfast.storage.encryption.sealing import MAGIC


@pytest.fixture(autouse=True)
def _no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ENVIRONMENT, raising=False)


@pytest.fixture
def keys(tmp_path: Path) -> list[str]:
    """Addresses of two keys."""
    for name in ("one", "two"):
        (tmp_path / name).write_text(new_key())
    return [f"file:{tmp_path / name}" for name in ("one", "two")]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "archive"


@pytest.fixture
def store(place: Path, keys: list[str]) -> SealedStore:
    """An encrypted archive."""
    store = open_store(str(place), keys[0])
    Archive.create(store, name="shop")
    return store


def test_an_archive_that_is_created_with_a_key_is_encrypted(store: SealedStore, place: Path) -> None:
    store.put("runs/a/1.json", b"who and what")
    with store.open_write("data/rows") as file:
        file.write(b"rows")
    for name in ("runs/a/1.json", "data/rows"):
        assert (place / name).read_bytes().startswith(MAGIC)
        assert b"rows" not in (place / name).read_bytes()
    assert {info.key: info.size for info in store.list("data/").objects} == {"data/rows": 4}
    assert Archive.open(store).identity.name == "shop"


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


def ring_of(place: Path, number: int = 1) -> dict[str, Any]:
    found = json.loads((place / "keys" / f"{number:08d}.json").read_text())
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize(
    "change",
    [
        {"root": "AAAA"},
        {"root": "A"},
        {"sealed": "AAAA"},
        {"created": "2020-01-01T00:00:00Z"},
        {"ring": "another"},
        {"number": 2},
        {"version": 2},
        {"more": 1},
        {"keys": []},
        {"keys": [{"id": "00000000", "created": "2020-01-01T00:00:00Z"}]},
    ],
)
def test_keys_that_are_damaged_are_said_to_be(store: SealedStore, place: Path, change: dict[str, Any]) -> None:
    (place / "keys" / "00000001.json").write_text(json.dumps(ring_of(place) | change))
    with pytest.raises(DamagedError, match=r"keys/00000001.json in .* is damaged, and without it nothing"):
        Archive.open(open_store(str(place), store.key))


def test_who_can_write_to_the_store_cannot_make_an_old_data_key_the_newest(store: SealedStore, place: Path) -> None:
    assert store.key is not None
    store.renew(store.key)
    found = ring_of(place, 2)
    for change in ({"number": 3}, {"number": 3, "keys": found["keys"][::-1]}):
        (place / "keys" / "00000003.json").write_text(json.dumps(found | change))
        with pytest.raises(DamagedError, match=r"keys/00000003.json in .* is damaged"):
            Archive.open(open_store(str(place), store.key))


def test_what_else_lies_beside_the_keys_is_none(store: SealedStore, place: Path) -> None:
    (place / "keys" / "backup.json").write_text("{}")
    assert Archive.open(open_store(str(place), store.key)).identity.name == "shop"


def test_a_key_that_does_not_open_what_it_wraps_is_not_taken(store: SealedStore, place: Path, tmp_path: Path) -> None:
    """Or a rotation to a service that may wrap, and not unwrap, would cost the archive."""
    (tmp_path / "service.py").write_text("import sys; print(sys.stdin.read() if sys.argv[1] == 'wrap' else 'AAAA')")
    changing = f"command:{sys.executable} -c 'import os, base64; print(base64.b64encode(os.urandom(32)).decode())'"
    for address in (f"kms:{sys.executable} {tmp_path / 'service.py'}", changing):
        with pytest.raises(HoldfastError, match="does not open what it has just wrapped, so nothing was changed"):
            store.renew(address)
        with pytest.raises(HoldfastError, match="does not open what it has just wrapped"):
            open_store(str(tmp_path / "other"), address).begin()
    assert not (tmp_path / "other").exists()
    assert Archive.open(open_store(str(place), store.key)).identity.name == "shop"


def test_a_service_opens_an_archive_and_rotates_its_keys(place: Path, tmp_path: Path) -> None:
    (tmp_path / "service.py").write_text(
        "import base64, sys; print(base64.b64encode(base64.b64decode(sys.stdin.read())[::-1]).decode())"
    )
    with_service = open_store(str(place), f"kms:{sys.executable} {tmp_path / 'service.py'}")
    Archive.create(with_service, name="shop")
    with_service.put("data/x", b"1")
    with_service.renew(with_service.key or "")
    assert open_store(str(place), with_service.key).get("data/x") == b"1"


class Exchanged(FolderStore):
    """A place whose keys are exchanged between two requests."""

    def __init__(self, root: Path, exchange: Callable[[], object]) -> None:
        super().__init__(root)
        self.exchange: Callable[[], object] | None = exchange

    def get(self, key: str) -> bytes:
        if key.startswith("keys/") and self.exchange is not None:
            exchange, self.exchange = self.exchange, None
            exchange()
        return super().get(key)


def test_keys_that_are_exchanged_meanwhile_are_looked_for_again(store: SealedStore, place: Path) -> None:
    store.put("data/x", b"1")
    assert store.key is not None
    meanwhile = SealedStore(Exchanged(place, lambda: store.renew(store.key or "")), store.key)
    assert meanwhile.get("data/x") == b"1"


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


def test_a_creation_that_was_killed_after_its_keys_goes_on_with_them(place: Path, keys: list[str]) -> None:
    open_store(str(place), keys[0]).begin()
    Archive.create(open_store(str(place), keys[0]), name="shop")
    assert len(list((place / "keys").iterdir())) == 1


def test_other_processes_find_the_key_themselves(store: SealedStore) -> None:
    store.put("data/x", b"1")
    sent = pickle.dumps(store)
    ring = store.ring()
    assert ring is not None
    assert not any(key.secret in sent for key in ring.keys.values())
    assert pickle.loads(sent).get("data/x") == b"1"  # noqa: S301 - it is our own


def test_after_a_rotation_the_new_key_opens_all_and_the_old_one_nothing(
    store: SealedStore, place: Path, keys: list[str]
) -> None:
    store.put("data/before", b"1")
    at_work = open_store(str(place), keys[0])
    at_work.get("data/before")
    store.renew(keys[1])
    store.put("data/after", b"2")
    found = open_store(str(place), keys[1])
    assert (found.get("data/before"), found.get("data/after")) == (b"1", b"2")
    names = {FolderStore(place).get(key)[4:8] for key in ("data/before", "data/after")}
    assert len(names) == 2, "what is written after it has a data key of its own"
    with pytest.raises(UsageError, match="has the fingerprint"):
        Archive.open(open_store(str(place), keys[0]))
    assert at_work.get("data/before") == b"1"
    assert [path.name for path in (place / "keys").iterdir()] == ["00000002.json"]


def test_who_was_at_work_during_a_rotation_reads_what_came_after_it(store: SealedStore, place: Path) -> None:
    at_work = open_store(str(place), store.key)
    at_work.list("data/")
    assert store.key is not None
    store.renew(store.key)
    store.put("data/after", b"2")
    assert at_work.get("data/after") == b"2"


def test_of_two_rotations_at_once_one_is_refused(store: SealedStore, place: Path) -> None:
    other = open_store(str(place), store.key)
    assert store.key is not None
    other_ring = other.ring()
    store.renew(store.key)
    assert other_ring is not None
    with pytest.raises(RefusedError, match=r"somebody else has just made keys/00000002.json"):
        renew_ring(FolderStore(place), other_ring, store.key)


def test_a_rotation_that_was_killed_before_it_removed_the_old_keys_is_completed_by_the_next(
    store: SealedStore, place: Path
) -> None:
    old = (place / "keys" / "00000001.json").read_bytes()
    assert store.key is not None
    store.renew(store.key)
    (place / "keys" / "00000001.json").write_bytes(old)
    store.renew(store.key)
    assert [path.name for path in (place / "keys").iterdir()] == ["00000003.json"]


def test_what_is_not_encrypted_has_no_keys_to_renew(place: Path, keys: list[str]) -> None:
    store = open_store(str(place))
    Archive.create(store, name="shop")
    with pytest.raises(UsageError, match="is not encrypted"):
        store.renew(keys[0])


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
