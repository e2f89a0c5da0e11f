"""The task queue procrastinate: all releases' migrations, with marks on both sides of each."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path

import pytest

from bench.support.missing import MissingError
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from tests.support.following.followed import Followed, open_followed
from tests.support.replay import replay, state_of

pytestmark = pytest.mark.service

NewDatabase = Callable[..., Address]

_MIGRATIONS = Path(__file__).parents[2] / ".work" / "applications" / "procrastinate" / "sql" / "migrations"

_RELEASE = re.compile(r"(\d+\.\d+\.\d+)_\d+_")


@pytest.fixture
def followed(address: Address, tmp_path: Path) -> Iterator[Followed]:
    """A database of nobody yet, and an archive."""
    with open_followed(address, tmp_path / "archive") as made:
        yield made


def releases() -> list[tuple[str, Callable[[Address], None]]]:
    """Return what each release does, in order."""
    files = sorted(_MIGRATIONS.glob("*.sql"))
    if not files:
        raise MissingError("applications", f"{_MIGRATIONS} is not there: type 'make setup-tests'")
    return [(name, _running([*some])) for name, some in groupby(files, key=_release)]


def _release(file: Path) -> str:
    found = _RELEASE.match(file.name)
    assert found is not None
    return found.group(1)


def _running(files: list[Path]) -> Callable[[Address], None]:
    def run(address: Address) -> None:
        with connect(address) as session:
            session.execute("set search_path = public")
            for file in files:
                session.execute(file.read_bytes())

    return run


@pytest.mark.parametrize(
    "first", [pytest.param(0, id="all", marks=pytest.mark.exhaustive), pytest.param(-3, id="the newest")]
)
def test_both_sides_of_each_release_come_back(followed: Followed, new_database: NewDatabase, first: int) -> None:
    every = releases()
    begun = every[: first or 1]
    for _, migrate in begun[:-1]:
        migrate(followed.address)
    states = replay(followed, [begun[-1], *every[len(begun) :]])
    assert len(states) == 2 * (len(every) - len(begun))
    for mark, state in states.items():
        target = new_database()
        said = followed.restore(mark, target)
        assert (said["stale"], said["not_restored"], said["schema_note"], said["equal"]) == ([], [], "", True), mark
        assert state_of(target) == state, mark
