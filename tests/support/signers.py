"""Keys that sign, for tests."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

from holdfast.common.signing import Signing
from holdfast.storage.encryption.key_source import new_key
from holdfast.storage.encryption.signing_key import find_signing_key


def new_signer(path: Path) -> tuple[str, str]:
    """Make a key in a file, and return its address and its public key."""
    path.write_text(new_key())
    path.chmod(0o600)
    address = f"file:{path}"
    return address, str(find_signing_key(address).public)


def signing(path: Path) -> Signing:
    """Make a key, and return who signs with it and believes only it."""
    return Signing(new_signer(path)[0])


def signed_as_before(body: bytes, name: str, address: str) -> bytes:
    """Sign an indented JSON object as releases did before every object was signed."""
    key, content = find_signing_key(address), body.removesuffix(b"\n}")
    digest = hashlib.sha256(content).hexdigest()
    made = base64.b64encode(key.sign(f"holdfast signed object 1\n{name}\n{digest}\n".encode()))
    return content + b',\n "signature": "%s:%s"\n}' % (key.public.fingerprint.encode(), made)
