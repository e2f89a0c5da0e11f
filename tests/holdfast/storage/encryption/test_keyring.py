"""Keys of an archive, which another key wraps: made, looked for, renewed and refused."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from holdfast.archive import Archive
from holdfast.common.errors import DamagedError, HoldfastError, RefusedError, UsageError
from holdfast.storage import FolderStore, ObjectStore, SealedStore, open_store
from holdfast.storage.encryption.keyring import RingDocument, renew_ring, store_document
from tests.support.stores.lossy_store import FaultyCreates


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


@pytest.mark.parametrize("script", [["lost"], ["never"], ["late"], ["never", "lost"]])
def test_a_lost_reply_makes_no_keys_twice(store: SealedStore, place: Path, tmp_path: Path, script: list[str]) -> None:
    document = RingDocument.model_validate(ring_of(place))
    target = FolderStore(tmp_path / "target")
    store_document(cast(ObjectStore, FaultyCreates(target, script)), document)
    assert RingDocument.model_validate_json(target.get(document.name)) == document
    with pytest.raises(RefusedError, match="another command has just made"):
        store_document(target, document.model_copy(update={"ring": "another"}))


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


def test_a_creation_that_was_killed_after_its_keys_goes_on_with_them(place: Path, keys: list[str]) -> None:
    open_store(str(place), keys[0]).begin()
    Archive.create(open_store(str(place), keys[0]), name="shop")
    assert len(list((place / "keys").iterdir())) == 1


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
    with pytest.raises(RefusedError, match=r"another command has just made keys/00000002.json"):
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


def test_a_document_that_a_refused_write_left_empty_keeps_nobody_from_the_archive(
    store: SealedStore, place: Path
) -> None:
    for number in (2, 3):
        (place / "keys" / f"{number:08d}.json").write_bytes(b"")
    again = open_store(str(place), store.key)
    assert Archive.open(again).identity.name == "shop"
    assert again.key is not None
    again.renew(again.key)
    assert [path.name for path in (place / "keys").iterdir()] == ["00000004.json"]
    assert Archive.open(open_store(str(place), store.key)).identity.name == "shop"
    (place / "keys" / "00000004.json").write_bytes(b"")
    with pytest.raises(DamagedError, match=r"keys/00000004.json in .* is damaged"):
        Archive.open(open_store(str(place), store.key))


def test_what_is_not_encrypted_has_no_keys_to_renew(place: Path, keys: list[str]) -> None:
    store = open_store(str(place))
    Archive.create(store, name="shop")
    with pytest.raises(UsageError, match="is not encrypted"):
        store.renew(keys[0])
