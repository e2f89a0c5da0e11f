"""The house in the documentation is the one in the folders: each package, what is in it, and what it may import.

Each module is as long as its subject; no two classes have one name.
"""

from __future__ import annotations

import ast
import importlib
import itertools
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "packages.md"
FLOORS = ("holdfast_airflow", "sparkjobs", "holdfast", "locking")
MIGRATIONS = "holdfast.replication.migrations.versions"

MOST_LINES = 600


def packages(floor: str) -> Iterator[tuple[str, Path]]:
    """Yield the packages of a floor with their folders, each before what is in it."""
    top = ROOT / ("plugins" if floor == "holdfast_airflow" else ".")
    for file in sorted((top / floor).rglob("__init__.py"), key=lambda file: file.parent.parts):
        name = ".".join(file.parent.relative_to(top).parts)
        if name != MIGRATIONS:
            yield name, file.parent


ALL = list(itertools.chain.from_iterable(map(packages, FLOORS)))


def told(name: str) -> tuple[str, str]:
    """Return what a package says is in it, and what it says it imports."""
    inside, _, imports = (importlib.import_module(name).__doc__ or "").partition("\n\n")
    sentence = " ".join(imports.partition("\n\n")[0].split())
    return " ".join(inside.split()), sentence.partition(". ")[0].rstrip(".") + "."


def row(name: str) -> str:
    inside, imports = told(name)
    return f"| `{name}` | {inside} | {imports} |"


@pytest.mark.parametrize("name", [name for name, _ in ALL])
def test_a_package_says_what_is_inside_and_what_it_imports(name: str) -> None:
    inside, imports = told(name)
    assert inside.endswith(".")
    assert imports.startswith("Imports ")


def test_the_page_shows_the_house_as_it_is() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| `") and line.count(" | ") == 2]
    there = [line for line in rows if line.partition("`")[2].partition("`")[0] in dict(ALL)]
    assert there == [row(name) for name, _ in ALL]


def product() -> list[Path]:
    return [file for root in ("holdfast", "locking", "plugins", "sparkjobs") for file in (ROOT / root).rglob("*.py")]


def test_a_module_is_read_at_one_sitting() -> None:
    lengths = {str(file.relative_to(ROOT)): len(file.read_text().splitlines()) for file in product()}
    assert len(lengths) > 500
    assert {name: length for name, length in lengths.items() if length > MOST_LINES} == {}


def test_no_two_classes_have_one_name() -> None:
    names = [
        node.name
        for file in product()
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.ClassDef)
    ]
    public = [name for name in names if not name.startswith("_")]
    assert len(public) > 500
    assert [name for name, many in Counter(public).items() if many > 1] == []
