"""Advisories: what is known against versions, from the snapshot in security/advisories/.

A snapshot is a YAML file: when and from what it was made, and records in the form of OSV, of which only some fields are
read: id, summary, affected (package, ranges, versions). Source: https://ossf.github.io/osv-schema/.
`python -m scripts.supply_chain.advisories FOLDER_OR_ZIP` makes pypi.yaml anew from an export of such records.
"""

from __future__ import annotations

import datetime
import json
import re
import sys
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from packaging.utils import canonicalize_name
from packaging.version import Version

from scripts.supply_chain import REQUIREMENTS, SECURITY
from scripts.supply_chain.pins import pins

PYPI, GENERIC, MAVEN = "PyPI", "generic", "Maven"
"""Ecosystems: that of Python packages and that of Java's are OSV's; native libraries have none there, and have ours."""

FOLDER = SECURITY / "advisories"
_SNAPSHOT = FOLDER / "pypi.yaml"
_KEPT = ("id", "aliases", "summary", "affected")


@dataclass(frozen=True)
class Advisory:
    """What is known against some versions of packages.

    :param affected: as OSV has it.
    """

    id: str
    summary: str
    affected: tuple[dict[str, Any], ...]

    def concerns(self, ecosystem: str, name: str, version: str) -> bool:
        """Return whether a version of a package is affected."""
        return any(
            version in each.get("versions", ())
            or any(_is_within(ecosystem, version, one) for one in each.get("ranges", ()))
            for each in self.affected
            if _is_of(each["package"], ecosystem, name)
        )


@dataclass(frozen=True)
class Snapshot:
    """Advisories as they were at a time.

    :param made: of the file that is oldest.
    """

    made: datetime.date
    advisories: tuple[Advisory, ...]


def read_snapshot(folder: Path) -> Snapshot:
    """Return what the files of a folder say."""
    documents = [yaml.safe_load(file.read_text()) for file in sorted(folder.glob("*.yaml"))]
    return Snapshot(
        min(document["made"] for document in documents),
        tuple(
            Advisory(record["id"], record["summary"], tuple(record["affected"]))
            for document in documents
            for record in document["advisories"]
        ),
    )


def _is_of(package: dict[str, str], ecosystem: str, name: str) -> bool:
    if package["ecosystem"] != ecosystem:
        return False
    return package["name"] == name or (ecosystem == PYPI and canonicalize_name(package["name"]) == name)


def _is_within(ecosystem: str, version: str, one: dict[str, Any]) -> bool:
    """Return whether a range has a version; its events are evaluated as OSV's specification says."""
    if one["type"] not in ("ECOSYSTEM", "SEMVER"):
        return False
    at, is_affected = order(ecosystem, version), False
    events = [(order(ecosystem, str(text)), kind) for event in one["events"] for kind, text in event.items()]
    for where, kind in sorted(events):
        if kind == "introduced" and at >= where:
            is_affected = True
        elif (kind == "fixed" and at >= where) or (kind == "last_affected" and at > where):
            is_affected = False
    return is_affected


def order(ecosystem: str, version: str) -> Any:
    """Return by what versions are compared: Python's rules, or numbers and letters in turn: 1.1.1 < 1.1.1w < 1.1.2."""
    if ecosystem == PYPI:
        return Version(version)
    parts = re.findall(r"\d+|[a-z]+", version)
    return tuple((1, int(part), "") if part.isdigit() else (0, 0, part) for part in parts if part != "final")


def taken(records: Iterable[dict[str, Any]], names: set[str]) -> list[dict[str, Any]]:
    """Return of an export's records those that concern packages of ours, without what is not read."""
    found = []
    for record in records:
        of_ours = [
            {key: each[key] for key in ("package", "ranges", "versions") if key in each}
            for each in record.get("affected", ())
            if each["package"]["ecosystem"] == PYPI and canonicalize_name(each["package"]["name"]) in names
        ]
        if of_ours and "withdrawn" not in record:
            summary = record.get("summary") or record.get("details", "").partition("\n")[0][:200]
            kept = {key: record[key] for key in _KEPT if key in record}
            found.append({**kept, "summary": summary, "affected": of_ours})
    return sorted(found, key=lambda record: str(record["id"]))


def exported(place: Path) -> Iterator[dict[str, Any]]:
    """Yield the records of an export: a folder, or a zip file, of JSON or YAML files."""
    if place.is_dir():
        for file in sorted(place.rglob("*")):
            if file.suffix in _READERS:
                yield _READERS[file.suffix](file.read_bytes())
        return
    with zipfile.ZipFile(place) as archive:
        for name in archive.namelist():
            if Path(name).suffix in _READERS:
                yield _READERS[Path(name).suffix](archive.read(name))


_READERS: dict[str, Any] = {".json": json.loads, ".yaml": yaml.safe_load}


def main(place: Path, snapshot: Path, today: datetime.date) -> None:
    """Make the snapshot of Python packages anew from an export."""
    names = {pin.name for pin in pins(REQUIREMENTS)}
    advisories = taken(exported(place), names)
    document = {"made": today, "from": place.name, "advisories": advisories}
    snapshot.write_text(yaml.safe_dump(document, sort_keys=False, width=120))
    print(f"{len(advisories)} advisories about packages that are pinned here are in {snapshot}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), _SNAPSHOT, datetime.datetime.now(datetime.UTC).date())
