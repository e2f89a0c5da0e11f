"""The signature of earlier releases in a document: of its content and its name, and nothing else passes for one."""

from __future__ import annotations

import json
from pathlib import Path

from holdfast.archive.format.checksum import add_checksum, check_checksum
from holdfast.archive.format.trust import signer_of, was_signed_by
from holdfast.storage.encryption.signing_key import find_signing_key
from tests.support.signers import new_signer, signed_as_before

BODY = json.dumps({"id": "b1", "rows": 10}, indent=1).encode()


def test_a_signed_document_is_the_same_with_one_field_more(tmp_path: Path) -> None:
    address = new_signer(tmp_path / "key")[0]
    key = find_signing_key(address)
    signed = add_checksum(signed_as_before(BODY, "commits/1", address))
    value = json.loads(signed)
    assert check_checksum(signed, "commits/1")
    assert {name: value[name] for name in ("id", "rows")} == json.loads(BODY)
    known = {key.public.fingerprint: key.public}
    assert was_signed_by(signed, "commits/1", known) == key.public
    assert was_signed_by(signed_as_before(BODY, "runs/1", address), "runs/1", known) == key.public  # without a checksum
    assert signer_of(signed) == key.public.fingerprint


def test_no_changed_bit_passes(tmp_path: Path) -> None:
    address = new_signer(tmp_path / "key")[0]
    key = find_signing_key(address)
    known = {key.public.fingerprint: key.public}
    signed = signed_as_before(BODY, "commits/1", address)
    for at in range(len(signed)):
        changed = bytearray(signed)
        changed[at] ^= 1
        assert was_signed_by(add_checksum(bytes(changed)), "commits/1", known) is None, at


def test_what_is_not_signed_or_by_another_key_is_signed_by_nobody_known(tmp_path: Path) -> None:
    address, others = (new_signer(tmp_path / name)[0] for name in ("one", "other"))
    key, other = find_signing_key(address), find_signing_key(others)
    known = {other.public.fingerprint: other.public}
    assert was_signed_by(add_checksum(BODY), "commits/1", known) is None
    assert signer_of(add_checksum(BODY)) == ""
    assert was_signed_by(add_checksum(signed_as_before(BODY, "commits/1", address)), "commits/1", known) is None
    passed_off = {other.public.fingerprint: key.public}
    assert was_signed_by(add_checksum(signed_as_before(BODY, "commits/1", others)), "commits/1", passed_off) is None
