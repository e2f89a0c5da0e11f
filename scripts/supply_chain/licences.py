"""Licences of what runs in images: by what the packages say of themselves, and by security/licences.yaml.

`make licences` writes docs/licences.md. A licence that the file does not allow, or none that is told, is an error.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageMetadata, distributions
from pathlib import Path
from typing import Any

import yaml
from license_expression import ExpressionError, Licensing, get_spdx_licensing
from packaging.utils import canonicalize_name

from scripts.supply_chain import REQUIREMENTS, ROOT, SECURITY
from scripts.supply_chain.pins import Pin, pins

PAGE = ROOT / "docs" / "licences.md"
RULES = SECURITY / "licences.yaml"
UNKNOWN = "unknown"

_HEAD = """# Licences

Written by `make licences` from what the packages say of themselves. These run in the images, or where
Holdfast is installed with its extras; Holdfast itself is under Apache-2.0, and contains no code of theirs. Which
licences are allowed, and why, is in `security/licences.yaml`: a test fails on another one, and on a package that names
none.
Libraries inside of wheels are in the bill of materials (`make sbom`). What Debian brings into the image (Java, Python,
the C library) is under the licences in its `/usr/share/doc/*/copyright`.

| package | version | licence |
| --- | --- | --- |
"""


@dataclass(frozen=True)
class Rules:
    """What is allowed, and what is known better than packages tell it.

    :param allowed: SPDX identifiers.
    :param spelled: other spellings, by what packages write.
    :param packages: SPDX expressions, by packages whose own word is missing or cannot be read.
    """

    allowed: frozenset[str]
    spelled: dict[str, str]
    packages: dict[str, str]


@cache
def _spdx() -> Licensing:
    return get_spdx_licensing()


def read_rules(file: Path) -> Rules:
    """Return the rules that a file states."""
    said: dict[str, Any] = yaml.safe_load(file.read_text())
    packages = {name: each["licence"] for name, each in said["packages"].items()}
    return Rules(frozenset(said["allowed"]), said["spelled"], packages)


def licence_of(name: str, metadata: PackageMetadata | None, rules: Rules) -> str:
    """Return the licence of a package as an SPDX expression, or `UNKNOWN`.

    :param metadata: None where it is not installed here.
    """
    if name in rules.packages:
        return rules.packages[name]
    if metadata is None:
        return UNKNOWN
    classifiers = [each for each in metadata.get_all("Classifier") or () if each.startswith("License ::")]
    classified = classifiers[0].rsplit(" :: ", 1)[-1] if len(classifiers) == 1 else ""
    own: list[str] = [said for key in ("License-Expression", "License") for said in metadata.get_all(key) or ()]
    for said in (*own, classified):
        found = rules.spelled.get(said, said)
        if found and is_expression(found):
            return found
    return UNKNOWN


def is_expression(text: str) -> bool:
    """Return whether a text is an SPDX expression whose identifiers are known."""
    try:
        return not _spdx().unknown_license_symbols(text) if text else False
    except ExpressionError:
        return False


def is_allowed(expression: str, rules: Rules) -> bool:
    """Return whether we may use what has a licence: of alternatives one must be allowed, of parts all."""
    if not is_expression(expression):
        return False
    return _holds(_spdx().parse(expression), rules.allowed)


def _holds(node: Any, allowed: frozenset[str]) -> bool:
    if not getattr(node, "args", ()) or hasattr(node, "license_symbol"):
        return str(node) in allowed
    holds = [_holds(each, allowed) for each in node.args]
    return any(holds) if type(node).__name__ == "OR" else all(holds)


def runtime() -> list[Pin]:
    """Return the pins of the image."""
    return [pin for pin in pins(REQUIREMENTS) if pin.is_runtime]


def metadata_by_name() -> dict[str, PackageMetadata]:
    """Return the metadata of what is installed here."""
    return {canonicalize_name(each.metadata["Name"]): each.metadata for each in distributions()}


def refused(rules: Rules) -> list[str]:
    """Return a sentence for each package of the image whose licence is not allowed or not known."""
    installed = metadata_by_name()
    found = {pin.name: licence_of(pin.name, installed.get(pin.name), rules) for pin in runtime()}
    return [f"{name}: {said}" for name, said in sorted(found.items()) if not is_allowed(said, rules)]


def page(rules: Rules) -> str:
    """Return the page of all licences."""
    installed = metadata_by_name()
    said = {pin: licence_of(pin.name, installed.get(pin.name), rules) for pin in runtime()}
    rows = (f"| {pin.name} | {pin.version} | {licence} |" for pin, licence in said.items())
    return _HEAD + "\n".join(rows) + "\n"


def main() -> None:
    """Write the page, and end with exit code 1 where a licence is not allowed."""
    rules = read_rules(RULES)
    PAGE.write_text(page(rules))
    if found := refused(rules):
        sys.exit("licences: not allowed, or not known, by security/licences.yaml: " + "; ".join(found))


if __name__ == "__main__":
    main()
