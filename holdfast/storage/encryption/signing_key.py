"""Keys that sign (Ed25519, RFC 8032), and the public keys that are believed.

A private key is found at an address, as a key that opens an archive is. What is signed is a digest, so that a service
may hold the key: its command is run as `WORDS public`, and as `WORDS sign` with what is to be signed as its input, both
in base64.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from holdfast.common.errors import HoldfastError, UsageError
from holdfast.common.signing import KEY_VARIABLE, SIGNERS_VARIABLE
from holdfast.storage.encryption.key_source import SecretKey, ServiceKey, find_key, shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from holdfast.common.signing import Signing

_KIND: Final = "ed25519:"
_PUBLIC_BYTES: Final = 32
_FINGERPRINT_DIGITS: Final = 16


@dataclass(frozen=True)
class PublicKey:
    """Key that checks signatures."""

    raw: bytes

    @property
    def fingerprint(self) -> str:
        """Return the first 16 hexadecimal digits of the key's SHA-256."""
        return hashlib.sha256(self.raw).hexdigest()[:_FINGERPRINT_DIGITS]

    def __str__(self) -> str:
        return _KIND + base64.b64encode(self.raw).decode()

    def has_signed(self, message: bytes, signature: bytes) -> bool:
        try:
            Ed25519PublicKey.from_public_bytes(self.raw).verify(signature, message)
        except InvalidSignature:
            return False
        return True


@dataclass(frozen=True)
class SigningKey:
    key: SecretKey | ServiceKey
    public: PublicKey

    def sign(self, message: bytes) -> bytes:
        if isinstance(self.key, SecretKey):
            return Ed25519PrivateKey.from_private_bytes(self.key.secret).sign(message)
        signature = self.key.ask(["sign"], message)
        if not self.public.has_signed(message, signature):
            raise HoldfastError(f"the command of {self.key.address} has made a signature that is not by its public key")
        return signature


@lru_cache(maxsize=16)
def find_signing_key(address: str) -> SigningKey:
    """Return the key that signs, looked for once in a process; UsageError: none; HoldfastError: its command failed."""
    key = find_key(address)
    if isinstance(key, SecretKey):
        made = Ed25519PrivateKey.from_private_bytes(key.secret).public_key()
        return SigningKey(key, PublicKey(made.public_bytes(Encoding.Raw, PublicFormat.Raw)))
    if not isinstance(key, ServiceKey):
        raise UsageError(f"the key at {shown(address)} cannot sign")
    raw = key.ask(["public"], b"")
    if len(raw) != _PUBLIC_BYTES:
        raise HoldfastError(f"the command of {address} printed no Ed25519 public key when asked for 'public'")
    return SigningKey(key, PublicKey(raw))


def parse_public_key(text: str, where: str) -> PublicKey:
    """Return a public key from its text; UsageError, which names `where`: it is none."""
    kind, _, rest = text.strip().partition(":")
    try:
        raw = base64.b64decode(rest, validate=True) if f"{kind}:" == _KIND else b""
    except (binascii.Error, ValueError):
        raw = b""
    if len(raw) != _PUBLIC_BYTES:
        raise UsageError(
            f"{where} has {text.strip()[:80]!r}, which is no public key: write {_KIND}… as 'holdfast signing new' and "
            "'holdfast signing show' print it"
        )
    return PublicKey(raw)


@lru_cache(maxsize=16)
def believed(signing: Signing) -> Mapping[str, PublicKey] | None:
    """Return the believed public keys by fingerprint; None where no signature is asked for.

    :raises UsageError: one cannot be read, or the key that signs is not among them.
    """
    if not signing:
        return None
    keys = {key.fingerprint: key for key in _keys(signing.signers)}
    if signing.key is not None:
        own = find_signing_key(signing.key).public
        if keys and own.fingerprint not in keys:
            raise UsageError(
                f"the key at {shown(signing.key)} ({own}) is not among those that are believed ({SIGNERS_VARIABLE}, or "
                "signing.signers in archives.yaml): what it signs would not be believed here"
            )
        keys[own.fingerprint] = own
    if not keys:
        raise UsageError(f"there is no public key at {' '.join(signing.signers)}")
    return keys


def _keys(texts: Iterable[str]) -> Iterator[PublicKey]:
    for text in texts:
        if not text.startswith("file:"):
            yield parse_public_key(text, f"{SIGNERS_VARIABLE}, or signing.signers")
            continue
        path = Path(text.removeprefix("file:")).expanduser()
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"the public keys in {path} cannot be read: {error}") from None
        stripped = (line.partition("#")[0].strip() for line in lines)
        yield from (parse_public_key(line, str(path)) for line in stripped if line)


def signing_key(signing: Signing) -> SigningKey | None:
    return find_signing_key(signing.key) if signing.key is not None else None


def missing_key(what: str) -> UsageError:
    """Return the error for an act on something signed, such as an archive's URL, that takes the key."""
    return UsageError(
        f"{what} is signed: say where the key that signs is, in {KEY_VARIABLE} or with 'signing: key:' in archives.yaml"
    )
