"""Rules for the keys of objects, the same on every store, so that archives can move."""

from __future__ import annotations

import re
from typing import Final

from locking.shared_folder import TEMPORARY_PREFIX
from locking.store import StoreError

MAX_KEY_BYTES = 1024  # S3's own limit, for the key with the store's prefix before it
MAX_PART_BYTES = 255  # the limit of one name on the usual file systems

_REFUSED: Final = re.compile(r"[\\\x00-\x1f\x7f]")


class InvalidKey(StoreError, ValueError):  # noqa: N818 - named after the situation, like the store errors
    """Key that a store refuses: empty, too long, or leading out."""


def check_key(key: str) -> str:
    """Return ``key``, or raise :class:`InvalidKey` with the reason."""
    _check_text(key)
    parts = key.split("/")
    for part in parts:
        _check_part(key, part)
    if parts[0].startswith(TEMPORARY_PREFIX):
        raise InvalidKey(f"Key {key!r} uses a name that is reserved for temporary files.")
    return key


def is_placeholder(key: str) -> bool:
    """Return whether a listed key is that of an empty "folder", as consoles make them; none is ours."""
    return not key or key.endswith("/")


def check_prefix(prefix: str) -> str:
    """Return ``prefix`` (empty, or the beginning of a key), or raise :class:`InvalidKey`."""
    if not prefix:
        return prefix
    _check_text(prefix)
    *folders, rest = prefix.split("/")
    for part in folders:
        _check_part(prefix, part)
    if rest in {".", ".."}:
        raise InvalidKey(f"Key prefix {prefix!r} has a part '.' or '..'.")
    return prefix


def _check_text(key: str) -> None:
    if not key:
        raise InvalidKey("An object's key is not empty.")
    if _REFUSED.search(key):
        raise InvalidKey(f"Key {key!r} has a backslash or a control character in it.")
    try:
        length = len(key.encode())
    except UnicodeEncodeError as error:
        raise InvalidKey(f"Key {key!r} is not valid Unicode.") from error
    if length > MAX_KEY_BYTES:
        raise InvalidKey(f"Key {key[:40]!r}… has {length} bytes; {MAX_KEY_BYTES} is the most.")


def _check_part(key: str, part: str) -> None:
    if part in {"", ".", ".."}:
        raise InvalidKey(f"Key {key!r} has an empty part, or a part '.' or '..'.")
    if len(part.encode()) > MAX_PART_BYTES:
        raise InvalidKey(f"Key {key[:40]!r}… has a part of more than {MAX_PART_BYTES} bytes.")
