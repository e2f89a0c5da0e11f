"""The house in the documentation is the one in the folders: each package, what is in it, and what it may import.

No folder is a heap: neither those of the house, nor of benches and tests. Each module has the test of its name, and is
not long; no two classes have one name.
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
PAGE = ROOT / "docs" / "architecture.md"
FLOORS = ("holdfast_airflow", "sparkjobs", "holdfast", "locking")
MIGRATIONS = "holdfast.replication.migrations.versions"

MOST_MODULES = 20
MOST_LINES = 450
NO_MODULES = {"__init__.py", "conftest.py"}

MIRRORED = ("dags", "demo", "holdfast", "locking", "plugins/holdfast_airflow", "sparkjobs")
"""Folders each of whose modules has its tests in a file of its name, or stands below."""

WITHOUT_TEST = {
    "holdfast/archive/format/model.py": "documents without a rule of their own; document.py refuses what is forged",
    "holdfast/cli/shared/options.py": "names and help of options: the reference is compared with them",
    "holdfast/common/choices.py": "the words of one choice: schema_choice.py reads them",
    "holdfast/operations/requests/cluster_check.py": "a name without an option",
    "holdfast/operations/requests/drill.py": "options, which test_drill.py of the command and of the operator give",
    "holdfast/operations/requests/mark.py": "options, which test_mark.py of the operator gives",
    "holdfast/operations/requests/migration.py": "one option, which test_base.py has the command offer",
    "holdfast/operations/requests/recovery.py": "options, which test_recover_replicas.py gives",
    "holdfast/operations/requests/sync.py": "a name without an option",
    "holdfast/operations/requests/trim.py": "options, which test_trim_log.py gives",
    "holdfast/replication/log/schema.py": "tables; test_store.py compares them with the migrations",
    "holdfast/postgresql/catalog/own_objects.py": "names",
    "holdfast/postgresql/connection/value_settings.py": "settings, which tests of sessions and values try",
    "holdfast/postgresql/logical/composed_schema.py": "what test_schema_composition.py puts together",
    "holdfast/postgresql/logical/window.py": "what test_changes.py asks for and reads",
    "holdfast/storage/contract/patience.py": "numbers of a client: each store's test waits by them",
    "sparkjobs/rehearsal.py": "a minimal job, which test_spark_classes.py runs whole",
    "locking/store.py": "a protocol and names of errors, without code: each store is tested for it",
}
"""Modules that declare and do nothing, each with the reason why no test of its own could fail."""


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


def test_a_folder_is_seen_at_a_glance() -> None:
    folders = [folder for _, folder in ALL]
    for top in (ROOT / "bench", ROOT / "demo", ROOT / "soak", ROOT / "tests"):
        folders += [top, *(each for each in top.rglob("*") if each.is_dir())]
    modules = {
        str(folder.relative_to(ROOT)): sum(file.name not in NO_MODULES for file in folder.glob("*.py"))
        for folder in folders
    }
    assert len(modules) > 100
    assert {name for name, many in modules.items() if many > MOST_MODULES} == set()


def product() -> list[Path]:
    return [
        file for root in ("dags", "holdfast", "locking", "plugins", "sparkjobs") for file in (ROOT / root).rglob("*.py")
    ]


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


def mirror(module: Path) -> Path:
    """Return the file that the tests of a module belong into."""
    place = module.relative_to(ROOT)
    place = place.relative_to("plugins") if place.parts[0] == "plugins" else place
    return ROOT / "tests" / place.with_name(f"test_{place.name}")


@pytest.mark.parametrize("root", MIRRORED)
def test_each_module_has_the_test_of_its_name(root: str) -> None:
    modules = [file for file in sorted((ROOT / root).rglob("*.py")) if not file.name.startswith("__")]
    modules = [file for file in modules if "migrations" not in file.parts]  # which test_store.py runs
    assert modules
    lacking = {str(each.relative_to(ROOT)) for each in modules if not mirror(each).exists()}
    assert lacking == {each for each in WITHOUT_TEST if each.startswith(f"{root}/")}


def test_a_module_without_a_test_is_in_a_folder_that_is_looked_at() -> None:
    assert all(each.startswith(tuple(f"{root}/" for root in MIRRORED)) for each in WITHOUT_TEST)
