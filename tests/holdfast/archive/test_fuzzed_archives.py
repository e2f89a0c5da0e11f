"""Archives in which somebody has changed anything at all: each command comes to a good end, soon, and loses nothing.

A case is known by its number: `HOLDFAST_FUZZ=4711 pytest tests/holdfast/archive/test_fuzzed_archives.py` runs that one,
and `HOLDFAST_FUZZ=0-5000` all of these.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from holdfast.postgresql.connection.server import PostgresServer
from holdfast.storage import open_store
from tests.support.fuzz import originals
from tests.support.fuzz.cases import Case, Original, Runner, running
from tests.support.fuzz.mutations import Forgery, Subject, forgeries
from tests.support.servers.postgres import passing_database

pytestmark = pytest.mark.service

WANTED = os.environ.get("HOLDFAST_FUZZ", "")
FEW = 2
MANY = 400
EACH = 20
"""One of so many forgeries is tried, each time the same ones."""


@pytest.fixture(scope="module")
def made(postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Original]:
    """The archives that cases begin with."""
    folder = tmp_path_factory.mktemp("fuzz")
    with passing_database(postgres) as source:
        clear = originals.in_the_clear(source, folder / "clear")
    return {"clear": clear, "encrypted": originals.encrypted(clear, folder / "encrypted")}


@pytest.fixture(scope="module")
def runner() -> Iterator[Runner]:
    with running() as started:
        yield started


def check(original: Original, seeds: range, runner: Runner, place: Path) -> None:
    """Run cases, and tell all that went wrong."""
    faults = []
    for seed in seeds:
        case = Case(original, seed, place / str(seed), runner)
        faults += [f"case {seed}, {case.mutations}: {fault}" for fault in case.run()]
        case.clean_up()
    assert faults == [], "\n".join(faults)


@pytest.mark.parametrize("kind", ["clear", pytest.param("encrypted", marks=pytest.mark.exhaustive)])
def test_a_whole_archive_has_no_fault(made: dict[str, Original], runner: Runner, tmp_path: Path, kind: str) -> None:
    case = Case(made[kind], 0, tmp_path / "whole", runner, mutates=0, writes=True)
    assert case.run() == []
    assert case.read == len(made[kind].targets)


@pytest.mark.parametrize("kind", ["clear", "encrypted"])
def test_some_mutated_archives_are_read_and_maintained(
    made: dict[str, Original], runner: Runner, tmp_path: Path, kind: str
) -> None:
    check(made[kind], range(FEW), runner, tmp_path)


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", ["clear", "encrypted"])
def test_many_mutated_archives_are_read_and_maintained(
    made: dict[str, Original], runner: Runner, tmp_path: Path, kind: str
) -> None:
    first, _, last = (WANTED or f"{FEW}-{FEW + MANY}").partition("-")
    check(made[kind], range(int(first), int(last or int(first) + 1)), runner, tmp_path)


def forgeries_of(original: Original, folder: Path) -> list[Forgery]:
    found = list(forgeries(Subject(open_store(str(original.folder)), original.folder, folder)))
    random.Random(0).shuffle(found)
    return found


def check_forgeries(original: Original, some: Sequence[Forgery], runner: Runner, place: Path) -> None:
    faults = []
    for number, forgery in enumerate(some):
        case = Case(original, number, place / f"forged-{number}", runner, writes=False, mutation=forgery)
        faults += [f"{case.mutations}: {fault}" for fault in case.run()]
        case.clean_up()
    assert faults == [], "\n".join(faults)


def test_a_value_of_a_document_may_be_any_other(made: dict[str, Original], runner: Runner, tmp_path: Path) -> None:
    check_forgeries(made["clear"], forgeries_of(made["clear"], tmp_path)[:FEW], runner, tmp_path)


@pytest.mark.exhaustive
def test_any_value_of_any_document_may_be_any_other(made: dict[str, Original], runner: Runner, tmp_path: Path) -> None:
    check_forgeries(made["clear"], forgeries_of(made["clear"], tmp_path)[::EACH], runner, tmp_path)
