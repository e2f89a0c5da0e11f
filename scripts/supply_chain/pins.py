"""Pins: the packages of requirements/, each with its version and the files that name it."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import canonicalize_name

RUNTIME = frozenset({"image.txt", "celery.txt"})
"""What runs in images, and so at users' places; the other files serve development and tests."""

_PIN = re.compile(r"^([A-Za-z0-9][\w.-]*)(?:\[[^\]]*\])?==([^\s;\\]+)", re.MULTILINE)


@dataclass(frozen=True, order=True)
class Pin:
    """A package at one version.

    :param files: those that pin it, by their names below requirements/.
    """

    name: str
    version: str
    files: tuple[str, ...]

    @property
    def is_runtime(self) -> bool:
        """Return whether it is part of an image."""
        return not RUNTIME.isdisjoint(self.files)


def pins(folder: Path) -> list[Pin]:
    """Return what the files of a folder pin, by name and version.

    A file that serves several platforms may pin one package at several versions.
    """
    found: dict[tuple[str, str], set[str]] = defaultdict(set)
    for file in folder.rglob("*.txt"):
        for name, version in _PIN.findall(file.read_text()):
            found[canonicalize_name(name), version].add(str(file.relative_to(folder)))
    return sorted(Pin(name, version, tuple(sorted(files))) for (name, version), files in found.items())
