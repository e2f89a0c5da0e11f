"""The signature of an object: of its content, its name and its archive, and nothing else passes for one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from holdfast.storage.encryption.signed_store import sign, split
from holdfast.storage.encryption.signing_key import SigningKey, find_signing_key
from tests.support.signers import new_signer

JSON = json.dumps({"id": "b1", "rows": 10}, indent=1).encode()
BODIES = pytest.mark.parametrize("body", [JSON, b"PAR1 and more", b"", b"{}", b"\n}"])


@pytest.fixture
def key(tmp_path: Path) -> SigningKey:
    return find_signing_key(new_signer(tmp_path / "key")[0])


def is_signed(stored: bytes, key: SigningKey, archive: str = "a", name: str = "runs/1") -> bool:
    body, made = split(stored)
    return made is not None and made.is_by({key.public.fingerprint: key.public}, archive, name, body)


@BODIES
def test_what_is_signed_comes_back_with_its_signature(key: SigningKey, body: bytes) -> None:
    stored = sign(body, "a", "runs/1", key)
    assert split(stored)[0] == body
    assert is_signed(stored, key)
    assert not is_signed(body, key)


def test_a_json_object_stays_one(key: SigningKey) -> None:
    value = json.loads(sign(JSON, "a", "runs/1", key))
    assert value.pop("archive_signature").startswith(key.public.fingerprint)
    assert value == json.loads(JSON)


@BODIES
def test_a_signature_is_of_the_archive_and_of_the_name(key: SigningKey, body: bytes) -> None:
    stored = sign(body, "a", "runs/1", key)
    assert not is_signed(stored, key, archive="b")
    assert not is_signed(stored, key, name="runs/2")


@BODIES
def test_no_changed_bit_passes(key: SigningKey, body: bytes) -> None:
    stored = sign(body, "a", "runs/1", key)
    for at in range(len(stored)):
        changed = bytearray(stored)
        changed[at] ^= 1
        assert not is_signed(bytes(changed), key), at


@BODIES
def test_no_signature_by_another_key_passes(key: SigningKey, body: bytes, tmp_path: Path) -> None:
    other = find_signing_key(new_signer(tmp_path / "other")[0])
    stored = sign(body, "a", "runs/1", other)
    assert not is_signed(stored, key)
    passed_off = stored.replace(other.public.fingerprint.encode(), key.public.fingerprint.encode())
    assert not is_signed(passed_off, key)


@BODIES
def test_of_two_signatures_the_last_one_is_read(key: SigningKey, body: bytes, tmp_path: Path) -> None:
    other = find_signing_key(new_signer(tmp_path / "other")[0])
    ours = sign(body, "a", "runs/1", key)
    twice = sign(ours, "a", "runs/1", other)
    assert split(twice)[0] == ours
    assert not is_signed(twice, key)
