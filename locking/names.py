"""Names of a lock's objects.

``<root>/<resource>/`` holds, for each transaction, ``INTENT.WRIT.<txn>`` or ``INTENT.READ.<txn>``, then the
target ``WRIT.<txn>`` or ``READ.<txn>``, and ``DEAD.<txn>`` once another client ended it. The folder keeps resources
``a`` and ``ab`` apart. Intents sort before targets on purpose: a listing read in key order then cannot miss a
client that moves from the one to the other.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from locking.errors import InvalidLockName

Mode = Literal["R", "W"]

WORDS: dict[Mode, str] = {"R": "READ", "W": "WRIT"}
MODES: dict[str, Mode] = {word: mode for mode, word in WORDS.items()}

_RESOURCE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}", re.ASCII)
_TXN = re.compile(r"[0-9a-f]{32}", re.ASCII)
_OBJECT = re.compile(rf"(?P<kind>INTENT\.|)(?P<word>READ|WRIT)\.(?P<txn>{_TXN.pattern})", re.ASCII)
_MARKER = re.compile(rf"DEAD\.(?P<txn>{_TXN.pattern})", re.ASCII)


@dataclass(frozen=True, slots=True)
class LockName:
    """Parts of the last part of a lock object's key."""

    kind: Literal["intent", "target", "dead"]
    txn: str
    mode: Mode | None = None


def parse_name(name: str) -> LockName | None:
    """Return the parts of ``name``; None for a name that is not ours."""
    if match := _OBJECT.fullmatch(name):
        kind: Literal["intent", "target"] = "intent" if match["kind"] else "target"
        return LockName(kind, match["txn"], MODES[match["word"]])
    if match := _MARKER.fullmatch(name):
        return LockName("dead", match["txn"])
    return None


def is_resource(name: str) -> bool:
    return _RESOURCE.fullmatch(name) is not None


def is_txn(text: str) -> bool:
    return _TXN.fullmatch(text) is not None


def check_resource(resource: str) -> str:
    """Return ``resource``, or raise :class:`InvalidLockName`."""
    if not is_resource(resource):
        raise InvalidLockName(
            f"{resource[:200]!r} cannot name a resource: 1 to 128 letters of A-Z a-z 0-9 . _ -, "
            "the first a letter or digit."
        )
    return resource


def check_root(root: str) -> str:
    """Return ``root``, the folder of all locks, or raise :class:`InvalidLockName`."""
    for part in root.split("/"):
        check_resource(part)
    return root


def split_target(target: str) -> tuple[str, str, Mode]:
    """Return the root, resource and mode of a target such as ``locks/history/WRIT``."""
    folder, _, word = target.rpartition("/")
    root, _, resource = folder.rpartition("/")
    if word not in MODES:
        raise InvalidLockName(f"{target!r} is no target: it must end in /READ or /WRIT.")
    return check_root(root), check_resource(resource), MODES[word]


def excludes(one: Mode, other: Mode) -> bool:
    """Return whether two locks of one resource exclude each other: all do, but two read locks."""
    return "W" in (one, other)
