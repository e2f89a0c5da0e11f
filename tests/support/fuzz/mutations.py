"""Mutations of an archive in a folder: of names, documents, sizes, types and links."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.common.errors import HoldfastError
from holdfast.storage import ObjectStore
from locking.store import StoreError
from tests.support.fuzz import forged

LARGE = 1 << 24
HUGE = 1 << 40
"""Bytes of a file with nothing in it but its size."""


@dataclass(frozen=True)
class Subject:
    """An archive that is to be mutated.

    :param store: opens it; `folder`: where it is.
    :param outside: a folder with files that nobody may change.
    """

    store: ObjectStore
    folder: Path
    outside: Path

    def files(self) -> list[Path]:
        """Return the files that are there, but for what is no file, or too large to be read or copied."""
        found = (path for path in self.folder.rglob("*") if path.is_file() and not path.is_symlink())
        return sorted(path for path in found if path.stat().st_size < LARGE)


Mutation = Callable[[Subject, Path, random.Random], str]


def mutate(subject: Subject, draw: random.Random) -> str:
    """Do something to an archive, and say what."""
    path = _chosen(subject, draw)
    way = draw.choice(_WAYS)
    return f"{path.relative_to(subject.folder)}: {way(subject, path, draw)}"


@dataclass(frozen=True)
class Forgery:
    """Something else for one value of one document.

    :param key: of the document; `at`: the place in it; `written`: what is there then, as JSON has it.
    """

    key: str
    at: forged.Path
    written: str

    def __call__(self, subject: Subject) -> str:
        """Put it there, so that it is read: a checkpoint would spare reading old commits."""
        subject.store.put(self.key, forged.with_value(subject.store.get(self.key), self.at, self.written))
        for checkpoint in subject.folder.glob("checkpoints/*"):
            checkpoint.unlink()
        return f"{self.key}: {'.'.join(map(str, self.at))} became {self.written[:60]}"


def forgeries(subject: Subject) -> Iterator[Forgery]:
    """Yield all values that may stand at each place of a document, of each kind of document once."""
    seen: set[tuple[object, ...]] = set()
    for path in subject.files():
        key = str(path.relative_to(subject.folder))
        if key.startswith(_WITH_DOCUMENTS):
            found = json.loads(subject.store.get(key))
            for at in forged.nodes(found):
                place = (
                    key.partition("/")[0],
                    found.get("kind"),
                    *(0 if isinstance(each, int) else each for each in at),
                )
                if place not in seen and at != ("checksum",):
                    seen.add(place)
                    yield from (Forgery(key, at, written) for written in forged.values_like(_value(found, at)))


_WITH_DOCUMENTS = ("archive.json", "commits/", "locks/", "runs/")


def _value(found: Any, at: forged.Path) -> Any:
    for name in at:
        found = found[name]
    return found


def _chosen(subject: Subject, draw: random.Random) -> Path:
    """Choose a kind of object first: of some there are many."""
    by_kind: dict[str, list[Path]] = {}
    for path in subject.files():
        by_kind.setdefault(f"{path.relative_to(subject.folder).parts[0]} {path.suffix}", []).append(path)
    return draw.choice(by_kind[draw.choice(sorted(by_kind))])


def _document(subject: Subject, path: Path, draw: random.Random) -> str:
    key = str(path.relative_to(subject.folder))
    if path.suffix != ".json" and not key.startswith("locks/"):
        return _bytes(subject, path, draw)
    try:
        said, body = forged.document(subject.store.get(key), draw)
        subject.store.put(key, body)
    except (ValueError, StoreError, HoldfastError):  # it was mutated before
        return _bytes(subject, path, draw)
    return said


def _bytes(subject: Subject, path: Path, draw: random.Random) -> str:
    """Change the bytes as they are stored: of an encrypted archive what is encrypted."""
    del subject
    said, body = forged.text(path.read_bytes(), draw)
    path.write_bytes(body)
    return said


def _plain(subject: Subject, path: Path, draw: random.Random) -> str:
    """Change the content of an object, which is encrypted anew."""
    key = str(path.relative_to(subject.folder))
    try:
        said, body = forged.text(subject.store.get(key), draw)
        subject.store.put(key, body)
    except (StoreError, HoldfastError):  # it was mutated before
        return _bytes(subject, path, draw)
    return f"content {said}"


def _beside(subject: Subject, path: Path, draw: random.Random) -> str:
    del subject
    other = path.with_name(_fitting(forged.name_beside(path.name, draw)))
    if other.exists() or not draw.random() < 0.8:
        path.rename(other)
        return f"renamed to {other.name!r}"
    shutil.copy2(path, other)
    return f"copied to {other.name!r}"


def _elsewhere(subject: Subject, path: Path, draw: random.Random) -> str:
    """Copy an object into another folder, or over another object."""
    other = draw.choice(subject.files())
    target = other if draw.random() < 0.5 else other.parent / path.name
    if target != path:
        shutil.copy2(path, target)
    return f"copied to {target.relative_to(subject.folder)}"


def _folder(subject: Subject, path: Path, draw: random.Random) -> str:
    """Put a folder where a file is, or beside it, or another file where its folder is."""
    del subject
    way = draw.choice(("instead", "beside", "file for folder"))
    if way == "file for folder" and path.parent.name != "archive":
        parent = path.parent
        shutil.rmtree(parent)
        parent.write_bytes(b"no folder")
        return "its folder became a file"
    place = path if way == "instead" else path.with_name(_fitting(forged.name_beside(path.name, draw)))
    if place == path:
        path.unlink()
    place.mkdir(exist_ok=True)
    if draw.random() < 0.5:
        (place / "inside.json").write_bytes(b"{}")
    return f"a folder {place.name!r}"


def _pipe(subject: Subject, path: Path, draw: random.Random) -> str:
    """Put what is no file where one is: who opens it would wait for ever."""
    del subject, draw
    path.unlink()
    os.mkfifo(path)
    return "became a pipe"


def _link(subject: Subject, path: Path, draw: random.Random) -> str:
    targets = {
        "outside": subject.outside / "canary",
        "to a folder outside": subject.outside,
        "to itself": path,
        "to nothing": subject.outside / "nothing",
        "to another object": draw.choice(subject.files()),
        "without end": Path("/dev/zero"),
    }
    said = draw.choice(sorted(targets))
    place = path.parent if draw.random() < 0.3 and path.parent != subject.folder else path
    if place == path:
        path.unlink()
    else:
        shutil.rmtree(place)
    place.symlink_to(targets[said])
    return f"{place.name} became a link {said}"


def _missing(subject: Subject, path: Path, draw: random.Random) -> str:
    if draw.random() < 0.7 or path.parent == subject.folder:
        path.unlink()
        return "taken away"
    shutil.rmtree(path.parent)
    return "its folder taken away"


def _sparse(subject: Subject, path: Path, draw: random.Random) -> str:
    """Let a file be larger than any memory."""
    del subject
    size = draw.choice((HUGE, HUGE, 1 << 33))
    with path.open("r+b") as file:
        file.truncate(size)
    return f"became {size} bytes large"


def _fitting(name: str) -> str:
    """Return a name that a file system takes."""
    return name.replace("/", "_").encode(errors="replace")[:250].decode(errors="ignore") or "_"


_WAYS: tuple[Mutation, ...] = (
    *[_document] * 10,
    *[_bytes] * 2,
    *[_plain] * 2,
    *[_beside] * 5,
    _elsewhere,
    *[_folder] * 2,
    _pipe,
    *[_link] * 2,
    *[_missing] * 2,
    _sparse,
)
