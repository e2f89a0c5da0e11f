"""Store that signs what is written to an archive, and checks what is read of it.

All objects carry a signature but locks and probes, which say nothing of the archive; data files, whose checksums stand
in signed commits; and the keys of an encrypted archive, which the key that opens them proves.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from holdfast.common.errors import DamagedError
from holdfast.common.signing import Signing
from holdfast.storage.contract.object_store import StoredDocument, check_new_document
from holdfast.storage.encryption import signature
from holdfast.storage.encryption.keyring import KEYS
from holdfast.storage.encryption.sealed_store import SealedStore
from holdfast.storage.encryption.signing_key import believed, signing_key
from locking.store import ObjectNotFound

if TYPE_CHECKING:
    from holdfast.storage.contract.object_store import ObjectStore

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
        body, made = signature.split(stored)
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
        signed = signature.sign(body, archive, key, mine)
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
