"""Applications whose migrations are their own programs: marks on both sides of each part of their history."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict

from bench.support.missing import MissingError
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.logical import ddl_triggers
from tests.support.following.followed import Followed, doubtful_tables, open_followed
from tests.support.replay import fill, replay, state_of

pytestmark = [pytest.mark.service, pytest.mark.exhaustive]

NewDatabase = Callable[..., Address]

ROOT = Path(__file__).parents[2]
_PG = {"PGHOST": "host", "PGPORT": "port", "PGUSER": "user", "PGPASSWORD": "password", "PGDATABASE": "dbname"}

PARTS = 6
"""Into which the younger half of an application's migrations is divided: about as many as releases."""


@dataclass(frozen=True)
class Application:
    """An application, installed in an environment of its own when it is first asked for.

    :param driver: the program beside this file that its Python runs.
    :param empty: tables whose rows its migrations understand only where the application has made them.
    """

    name: str
    driver: str
    empty: tuple[str, ...] = ()

    def python(self) -> Path:
        """Install it, and return its Python."""
        subprocess.run([ROOT / "scripts" / "setup_applications.sh", self.name], check=True)
        found = ROOT / ".work" / f"application-{self.name}" / "bin" / "python"
        if not found.exists():
            raise MissingError(f"application-{self.name}", f"{found} is not there")
        return found

    def migrate(self, address: Address, *count: int) -> int:
        """Apply so many migrations to a database; return how many are left."""
        fields = conninfo_to_dict(address.conninfo())
        told = {name: str(fields[field]) for name, field in _PG.items()}
        done = subprocess.run(
            [self.python(), Path(__file__).with_name(self.driver), self.name, *map(str, count)],
            env={**os.environ, **told},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return int(done.stdout.split()[-1])

    def parts(self, address: Address) -> list[tuple[str, Callable[[Address], None]]]:
        """Return its migrations from an empty database on: the older half at once, then the others in parts."""
        every = self.migrate(address)
        begin = every // 2
        cuts = [begin + (every - begin) * number // PARTS for number in range(PARTS + 1)]
        sizes = [begin, *(after - before for before, after in pairwise(cuts))]
        return [(f"part {number}", partial(_apply, self, size)) for number, size in enumerate(sizes) if size]


def _apply(application: Application, size: int, address: Address) -> None:
    application.migrate(address, size)


APPLICATIONS = [
    Application("oscar", "migrate_django.py"),
    Application("wagtail", "migrate_django.py", ("public.wagtailcore_grouppagepermission",)),
    Application("mlflow", "migrate_alembic.py"),
    Application("prefect", "migrate_alembic.py", ("public.flow_run_input", "public.automation_event_follower")),
    Application("airflow", "migrate_alembic.py", ("public.dag_bundle_team", "public.serialized_dag")),
]


@pytest.fixture
def followed(address: Address, tmp_path: Path) -> Iterator[Followed]:
    """A database of nobody yet, and an archive."""
    with open_followed(address, tmp_path / "archive") as made:
        yield made


@pytest.mark.parametrize("application", APPLICATIONS, ids=lambda each: each.name)
def test_both_sides_of_each_part_come_back(
    followed: Followed, new_database: NewDatabase, application: Application
) -> None:
    parts = application.parts(followed.address)
    states = replay(followed, parts, empty=application.empty)
    assert len(states) == 2 * (len(parts) - 1)
    for mark, state in states.items():
        target = new_database()
        said = followed.restore(mark, target)
        assert (said["stale"], said["not_restored"], said["schema_note"], said["equal"]) == ([], [], "", True), mark
        assert state_of(target) == state, mark


SINGLE = 12
"""Migrations, the youngest ones, that run one by one between two backups."""


@pytest.mark.parametrize("application", APPLICATIONS, ids=lambda each: each.name)
def test_moments_between_migrations_come_back_where_the_log_tells_of_definitions(
    followed: Followed, new_database: NewDatabase, application: Application
) -> None:
    """No mark, and one backup behind all: all of a moment is what was there, but for what is named."""
    for statement in ddl_triggers.CREATED:
        followed.session.execute(statement.encode())
    application.migrate(followed.address, application.migrate(followed.address) - SINGLE)
    fill(followed.address, application.empty)
    followed.back_up()
    states = {}
    for number in range(SINGLE):
        application.migrate(followed.address, 1)
        fill(followed.address, application.empty)
        states[followed.note()] = (number, state_of(followed.address))
    assert not followed.back_up()["waiting"]
    for position, (number, state) in states.items():
        target = new_database()
        said = followed.restore(f"lsn:{position}", target)
        found = state_of(target)
        named = {each["table"] for each in said["stale"]} | doubtful_tables(
            followed, followed.moment(f"lsn:{position}")
        )
        tables = found.rows.keys() | state.rows.keys()
        assert {table for table in tables if found.rows.get(table) != state.rows.get(table)} <= named, number
        if not said["schema_note"] and not said["not_restored"]:
            assert set(found.schema) == set(state.schema), number
