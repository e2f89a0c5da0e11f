"""Keys that sign, in files and with services, and the public keys that are believed."""

from __future__ import annotations

import base64
import shlex
import sys
from pathlib import Path

import pytest

from holdfast.common.errors import HoldfastError, UsageError
from holdfast.common.signing import Signing
from holdfast.storage.encryption.signing_key import (
    believed,
    find_signing_key,
    missing_key,
    parse_public_key,
    signing_key,
)
from tests.support.signers import new_signer

SERVICE = """
import base64, sys
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
key = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
other = Ed25519PrivateKey.from_private_bytes(bytes(32))
said = base64.b64decode(sys.stdin.buffer.read())
answer = {
    "public": lambda: key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw),
    "sign": lambda: (other if b"deceive" in said else key).sign(said),
}[sys.argv[1]]()
print(base64.b64encode(answer).decode())
"""


def test_what_a_key_signs_its_public_key_checks_and_no_other(tmp_path: Path) -> None:
    (one, public), (other, _) = new_signer(tmp_path / "one"), new_signer(tmp_path / "other")
    signature = find_signing_key(one).sign(b"message")
    assert parse_public_key(public, "here").has_signed(b"message", signature)
    assert not parse_public_key(public, "here").has_signed(b"massage", signature)
    assert not find_signing_key(other).public.has_signed(b"message", signature)
    assert not parse_public_key(public, "here").has_signed(b"message", b"short")


def test_a_service_may_hold_the_key(tmp_path: Path) -> None:
    (tmp_path / "service.py").write_text(SERVICE)
    words = shlex.join([sys.executable, str(tmp_path / "service.py")])
    key = find_signing_key(f"kms:{words}")
    assert key.public.has_signed(b"message", key.sign(b"message"))
    with pytest.raises(HoldfastError, match="a signature that is not by its public key"):
        key.sign(b"deceive")


def test_a_service_that_prints_something_else_is_named() -> None:
    with pytest.raises(HoldfastError, match="printed no Ed25519 public key"):
        find_signing_key("kms:sh -c 'echo AAAA'")


@pytest.mark.parametrize("text", ["", "ed25519:", "ed25519:AAAA", "rsa:" + "A" * 43 + "=", "ed25519:" + "?" * 43 + "="])
def test_what_is_no_public_key_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"the list has .*, which is no public key: write ed25519:"):
        parse_public_key(text, "the list")


def test_who_names_nobody_asks_for_no_signature() -> None:
    assert believed(Signing()) is None
    assert signing_key(Signing()) is None


def test_who_signs_believes_himself(tmp_path: Path) -> None:
    address, public = new_signer(tmp_path / "key")
    assert list(map(str, (believed(Signing(address)) or {}).values())) == [public]
    assert str(missing_key("s3://a/b")).startswith("s3://a/b is signed: say where the key that signs is")


def test_signers_come_from_words_and_from_files(tmp_path: Path) -> None:
    (_, one), (_, two) = new_signer(tmp_path / "one"), new_signer(tmp_path / "two")
    (tmp_path / "signers").write_text(f"# of the backups\n\n{two}  # the new one\n")
    known = believed(Signing(None, (one, f"file:{tmp_path / 'signers'}")))
    assert known is not None
    assert {str(key) for key in known.values()} == {one, two}


def test_mistakes_in_signers_are_named(tmp_path: Path) -> None:
    (address, _), (_, other) = new_signer(tmp_path / "one"), new_signer(tmp_path / "other")
    with pytest.raises(UsageError, match="is not among those that are believed"):
        believed(Signing(address, (other,)))
    with pytest.raises(UsageError, match="cannot be read"):
        believed(Signing(None, (f"file:{tmp_path / 'none'}",)))
    (tmp_path / "empty").write_text("# nobody yet\n")
    with pytest.raises(UsageError, match="there is no public key at"):
        believed(Signing(None, (f"file:{tmp_path / 'empty'}",)))


def test_an_address_of_a_key_is_looked_at_as_any_other(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        find_signing_key(f"file:{tmp_path / 'none'}")
    (tmp_path / "short").write_text(base64.b64encode(b"short").decode())
    with pytest.raises(UsageError, match="is no key"):
        find_signing_key(f"file:{tmp_path / 'short'}")
