"""Checksum at the end of a JSON document, of everything before it.

Data files have their checksums in the commit that names them; a commit and the archive's identity have nothing that
names them. JSON is no protection: with one flipped bit another table, time or row count is read, and with a flipped key
a whole field is taken for absent.
"""

from __future__ import annotations

import hashlib
import re

from holdfast.common.errors import DamagedError

_END = b"\n}"
_CHECKSUM = re.compile(rb',\n "checksum": "([0-9a-f]{64})"\n}')
_LENGTH = len(b',\n "checksum": ""\n}') + 64


def add_checksum(body: bytes) -> bytes:
    """Add the SHA-256 of an indented JSON object as its last field."""
    content = body.removesuffix(_END)
    return content + b',\n "checksum": "%s"' % hashlib.sha256(content).hexdigest().encode() + _END


def checksum_of(body: bytes) -> str:
    """Return the SHA-256 that a document is known by, in hex: its checksum, or of all bytes without one."""
    found = _CHECKSUM.fullmatch(body[-_LENGTH:])
    return found[1].decode() if found else hashlib.sha256(body).hexdigest()


def without_checksum(body: bytes) -> bytes:
    return body[:-_LENGTH] + _END if _CHECKSUM.fullmatch(body[-_LENGTH:]) else body


def check_checksum(body: bytes, key: str) -> bool:
    """Verify a document's checksum, and return whether it has one; DamagedError: it does not fit.

    Damage to the checksum's own syntax alone makes it look like one without: the content is then as it was written.
    """
    found = _CHECKSUM.fullmatch(body[-_LENGTH:])
    if found and hashlib.sha256(body[:-_LENGTH]).hexdigest().encode() != found[1]:
        raise wrong_checksum(key, "its checksum is another than its bytes have")
    return found is not None


def wrong_checksum(key: str, why: str) -> DamagedError:
    return DamagedError(f"{key} is damaged: {why}. Restore this object from a copy of the archive.")
