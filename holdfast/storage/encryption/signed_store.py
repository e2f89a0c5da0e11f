"""Store that signs what is written to an archive, and checks what is read of it.

All objects carry a signature but locks and probes, which say nothing of the archive; data files, whose checksums stand
in signed commits; and the keys of an encrypted archive, which the key that opens them proves.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from holdfast.common.errors import DamagedError
from holdfast.common.signing import Signing
from holdfast.storage.contract.object_store import StoredDocument, check_new_document
from holdfast.storage.encryption.keyring import KEYS
from holdfast.storage.encryption.sealed_store import SealedStore
from holdfast.storage.encryption.signing_key import believed, signing_key
from holdfast.storage.url import open_url
from locking.store import ObjectNotFound

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from holdfast.storage.contract.object_store import ObjectStore
    from holdfast.storage.encryption.signing_key import PublicKey, SigningKey

_UNSIGNED: Final = ("data/", KEYS, "locks/", "probes/")

_IDENTITY: Final = "archive.json"


class NotSignedError(DamagedError):
    """Object that no known signer has signed."""


class SignedStore(SealedStore):
    """Store in front of another, for archives encrypted or not, signed or not.

    A signature is of the content, inside of the encryption: a copy under another key has it, too.

    :param signing: who signs, and who is believed; None for what `HOLDFAST_SIGNING_KEY` and `HOLDFAST_SIGNERS` say.
    """

    def __init__(self, inner: ObjectStore, key: str | None = None, signing: Signing | None = None) -> None:
        super().__init__(inner, key)
        self.signing = signing or Signing.from_environment()
        self._archive = ""

    def behind(self, inner: ObjectStore) -> SignedStore:
        return SignedStore(inner, self.key, self.signing)

    def begin(self, like: ObjectStore | None = None) -> None:
        super().begin(like)
        if isinstance(like, SignedStore):
            self._archive = like._archive_id()

    def read(self, key: str) -> StoredDocument:
        stored = super().get(key)
        if key.startswith(_UNSIGNED):
            return StoredDocument(stored, stored)
        body, made = split(stored)
        signers = believed(self.signing)
        if signers is None or made is None:
            return StoredDocument(body, stored, is_believed=signers is None)
        # Where another archive was put in the place of the one that was here, its id is another one, too.
        is_ours = any(made.is_by(signers, self._archive_id(reload=reload), key, body) for reload in (False, True))
        return StoredDocument(body, stored, is_ours, made.signer)

    def get(self, key: str) -> bytes:
        stored = self.read(key)
        if not stored.is_believed:
            raise not_signed(key, stored.signer, self.signing)
        return stored.body

    def create_signed(self, key: str, body: bytes) -> None:
        super().create(key, body)

    def put(self, key: str, body: bytes) -> None:
        super().put(key, self._sign(key, body))

    def create(self, key: str, body: bytes) -> None:
        super().create(key, self._sign(key, body))

    def replace(self, key: str, body: bytes, etag: str) -> None:
        super().replace(key, self._sign(key, body), etag)

    def touch(self, key: str, body: bytes) -> None:
        super().touch(key, self._sign(key, body))

    def _sign(self, key: str, body: bytes) -> bytes:
        mine = None if key.startswith(_UNSIGNED) else signing_key(self.signing)
        if mine is None:
            return body
        archive = _id_in(body) if key == _IDENTITY else self._archive_id()
        signed = sign(body, archive, key, mine)
        check_new_document(key, len(signed))
        return signed

    def _archive_id(self, *, reload: bool = False) -> str:
        """Return the archive's id, or ""; nothing vouches for it: with another one, no signature fits."""
        if reload or not self._archive:
            with suppress(ObjectNotFound):
                self._archive = _id_in(super().get(_IDENTITY))
        return self._archive

    def __reduce__(self) -> tuple[Any, ...]:
        _, (inner, key) = super().__reduce__()
        return SignedStore, (inner, key, self.signing.to_check())


def not_signed(key: str, signer: str, signing: Signing) -> NotSignedError:
    """Return the error for an object that no known key has signed; `signer`: as it says, "" for none."""
    how = f"says to be signed by {signer}, which is not so or not known here" if signer else "is not signed"
    known = ", ".join(sorted(believed(signing) or ()))
    return NotSignedError(
        f"{key} {how}, and nothing signed vouches for it (known: {known}): it may be forged. Compare with a copy of "
        "the archive; where it is all right, 'holdfast signing start' vouches for what is there"
    )


def _id_in(body: bytes) -> str:
    try:
        archive = json.loads(body)["id"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""
    return archive if isinstance(archive, str) else ""


def open_store(url: str, key: str | None = None, signing: Signing | None = None) -> SignedStore:
    """Return the store of an archive, encrypted or not, signed or not; URL and errors as `open_url`.

    :param key: address of the key that opens the archive; None for what the environment's ``HOLDFAST_KEY`` says.
    :param signing: who signs what is written, and who is believed; None for what the environment says.
    """
    return SignedStore(open_url(url), key, signing)


def opener_like(store: ObjectStore) -> Callable[[str], SignedStore]:
    """Return an opener of replicas with this store's keys and signers."""
    return partial(open_store, key=store.key, signing=store.signing)


_END: Final = b"\n}"
_OF_JSON: Final = b',\n "archive_signature": "%s"\n}'
_OF_OTHERS: Final = b"\narchive_signature: %s\n"
_VALUE: Final = re.compile(rb"([0-9a-f]{16}):([A-Za-z0-9+/]{86}==)")
_VALUE_BYTES: Final = 16 + 1 + 88


class Signature(NamedTuple):
    """Signature as an object says it, with the fingerprint of the key that is said to have made it."""

    signer: str
    value: bytes

    def is_by(self, believed: Mapping[str, PublicKey], archive: str, name: str, content: bytes) -> bool:
        """Return whether a believed key has signed this content and name."""
        key = believed.get(self.signer)
        return key is not None and key.has_signed(_message(archive, name, content), self.value)


def sign(content: bytes, archive: str, name: str, key: SigningKey) -> bytes:
    """Return an object with its signature, for the id of its archive and its name there."""
    made = base64.b64encode(key.sign(_message(archive, name, content)))
    value = b"%s:%s" % (key.public.fingerprint.encode(), made)
    return content.removesuffix(_END) + _OF_JSON % value if _is_json(content) else content + _OF_OTHERS % value


def split(stored: bytes) -> tuple[bytes, Signature | None]:
    """Return an object's content, and its signature; None where it has none."""
    for form, end in ((_OF_JSON, _END), (_OF_OTHERS, b"")):
        before, after = form.split(b"%s")
        at = len(stored) - len(after) - _VALUE_BYTES
        value = _VALUE.fullmatch(stored, at, at + _VALUE_BYTES) if at >= len(before) else None
        if value and stored.endswith(after) and stored.startswith(before, at - len(before)):
            return stored[: at - len(before)] + end, Signature(value[1].decode(), base64.b64decode(value[2]))
    return stored, None


def _is_json(content: bytes) -> bool:
    return content.startswith(b"{") and content.endswith(_END)


def _message(archive: str, name: str, content: bytes) -> bytes:
    digest = hashlib.sha256(content).hexdigest()
    return b"holdfast signed object 2\n%s\n%s\n%s\n" % (archive.encode(), name.encode(), digest.encode())
