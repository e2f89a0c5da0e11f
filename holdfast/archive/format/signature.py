"""Signature in a commit or checkpoint of a release before all objects of an archive were signed.

It stands before the seal, and is of the name of the object and the SHA-256 of what stands before. Such ones are read,
and made no more.
"""

from __future__ import annotations

import base64
import hashlib
import re
from typing import TYPE_CHECKING, Final

from holdfast.archive.format.seal import without_seal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.storage.encryption.signing_key import PublicKey

_SIGNATURE: Final = re.compile(rb',\n "signature": "([0-9a-f]{16}):([A-Za-z0-9+/]{86}==)"\n}')
_LENGTH: Final = len(b',\n "signature": ":"\n}') + 16 + 88


def was_signed_by(body: bytes, name: str, known: Mapping[str, PublicKey]) -> PublicKey | None:
    """Return the key among those known, by fingerprint, that has signed a document; None: none has."""
    unsealed = without_seal(body)
    found = _SIGNATURE.fullmatch(unsealed[-_LENGTH:])
    key = known.get(found[1].decode()) if found else None
    if found is None or key is None:
        return None
    signature = base64.b64decode(found[2])
    return key if key.has_signed(_message(name, unsealed[:-_LENGTH]), signature) else None


def signer_of(body: bytes) -> str:
    """Return the fingerprint that a document says it is signed by, which proves nothing; "" if none."""
    found = _SIGNATURE.fullmatch(without_seal(body)[-_LENGTH:])
    return found[1].decode() if found else ""


def _message(name: str, content: bytes) -> bytes:
    return b"holdfast signed object 1\n%s\n%s\n" % (name.encode(), hashlib.sha256(content).hexdigest().encode())
