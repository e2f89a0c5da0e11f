"""The audit: pinned packages and libraries inside of wheels against the committed advisories, without a network.

`make audit` ends with exit code 1 where an advisory concerns something that security/accepted.yaml does not accept,
and where that file accepts what is not here any more, or what was to be looked at again by now.
"""

from __future__ import annotations

import datetime
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import yaml

from scripts.supply_chain import REQUIREMENTS, SECURITY
from scripts.supply_chain.advisories import FOLDER, GENERIC, MAVEN, PYPI, Advisory, Snapshot, read_snapshot
from scripts.supply_chain.native import UNKNOWN, Library, libraries
from scripts.supply_chain.pins import Pin, pins

ACCEPTED = SECURITY / "accepted.yaml"
_OLD = datetime.timedelta(days=30)
_ECOSYSTEMS = {"generic": GENERIC, "maven": MAVEN}


@dataclass(frozen=True, order=True)
class Finding:
    """An advisory that concerns something here.

    :param where: the package itself, or the one whose wheel has the library inside.
    """

    where: str
    name: str
    version: str
    advisory: str


@dataclass(frozen=True)
class Acceptance:
    """Advisories that are known and accepted.

    :param look_again: the day from which it counts no longer.
    """

    findings: frozenset[Finding]
    look_again: datetime.date


def accepted(file: Path) -> list[Acceptance]:
    """Return what a file accepts."""
    return [
        Acceptance(
            frozenset(Finding(each["where"], each["name"], str(each["version"]), id_) for id_ in each["advisories"]),
            each["look_again"],
        )
        for each in yaml.safe_load(file.read_text())["accepted"]
    ]


def found(pinned: Iterable[Pin], inside: Iterable[Library], advisories: Iterable[Advisory]) -> dict[Finding, str]:
    """Return what advisories concern, each with its summary."""
    things = [(pin.name, PYPI, pin.name, pin.version) for pin in pinned]
    things += [(one.wheel, _ECOSYSTEMS[one.kind], one.name, one.version) for one in inside if one.version != UNKNOWN]
    return {
        Finding(where, name, version, advisory.id): advisory.summary
        for advisory in advisories
        for where, ecosystem, name, version in things
        if advisory.concerns(ecosystem, _as_maven(name) if ecosystem == MAVEN else name, version)
    }


def _as_maven(name: str) -> str:
    return name.replace("/", ":")


def verdict(here: dict[Finding, str], acceptances: Iterable[Acceptance], today: datetime.date) -> list[str]:
    """Return a sentence for each thing that is wrong."""
    counting: set[Finding] = set()
    wrong = []
    for acceptance in acceptances:
        ids = ", ".join(sorted(each.advisory for each in acceptance.findings))
        if gone := acceptance.findings - here.keys():
            wrong += [
                f"{each.where}: {each.advisory} ({each.name} {each.version}) is not here: remove it" for each in gone
            ]
        if acceptance.look_again <= today:
            wrong.append(f"look again at {ids}: accepted until {acceptance.look_again}")
        else:
            counting |= acceptance.findings
    wrong += [
        f"{each.where}: {each.name} {each.version} has {each.advisory}: {summary}"
        for each, summary in here.items()
        if each not in counting
    ]
    return sorted(wrong)


def age(snapshot: Snapshot, today: datetime.date) -> str:
    """Return how old a snapshot is, and what to do where that is too old."""
    said = f"{len(snapshot.advisories)} advisories, as they were on {snapshot.made}"
    if today - snapshot.made > _OLD:
        said += ": that is more than 30 days ago, so make it anew (SECURITY.md)"
    return said


def main(today: datetime.date) -> None:
    """Audit this environment, and say what was found."""
    snapshot, pinned, inside = read_snapshot(FOLDER), pins(REQUIREMENTS), libraries()
    print(f"audit: {age(snapshot, today)}")
    print(f"audit: {len(pinned)} pinned packages, {len(inside)} libraries inside of wheels")
    for library in inside:
        if library.version == UNKNOWN:
            print(f"audit: {library.name} in {library.wheel} does not say its version, and is not looked up")
    here = found(pinned, inside, snapshot.advisories)
    wrong = verdict(here, accepted(ACCEPTED), today)
    print(f"audit: {len(here)} findings, {'all accepted (security/accepted.yaml)' if not wrong else 'and:'}")
    if wrong:
        sys.exit("\n".join(f"audit: {sentence}" for sentence in wrong))


if __name__ == "__main__":
    main(datetime.datetime.now(datetime.UTC).date())
