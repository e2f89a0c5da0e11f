"""Signature of an object: of its content, its name and the archive that it is of.

It is the last field of a JSON object, and the last line of any other one. So a signed object is none under another
name, and none of another archive.
"""

from __future__ import annotations

import base64
import hashlib
import re
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.storage.encryption.signing_key import PublicKey, SigningKey

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
