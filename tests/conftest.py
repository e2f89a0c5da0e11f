"""What many tests share: one PostgreSQL server a session, a database of its own a test."""

from __future__ import annotations

import gc
import itertools
import os
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress

import psycopg
import pytest
from hypothesis import settings

from holdfast.archive.format import last_seen
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.server import PostgresServer
from holdfast.postgresql.connection.session import connect
from tests.support.servers.postgres import drop_slots
from tests.support.servers.versions import running

_numbers = itertools.count(1)
_ALONE = "HOLDFAST_TEST_ALONE"
_ALONE_S = 120


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that forks in an interpreter of its own.

    A lock that another thread holds in the moment of a fork stays locked in the child for ever: and by then, a process
    of tests has threads of many libraries.
    """
    if pyfuncitem.get_closest_marker("forks") is None or _ALONE in os.environ:
        return None
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", pyfuncitem.nodeid],
        env={**os.environ, _ALONE: "1"},
        cwd=pyfuncitem.config.rootpath,
        capture_output=True,
        text=True,
        timeout=_ALONE_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show with a failed test why the tasks of its Airflow have failed."""
    report = yield
    if report.failed and "demo.airflow" in sys.modules:
        from tests.support.airflow.failed_tasks import airflows_of, why_failed

        for airflow in airflows_of(getattr(item, "funcargs", {}).values()):
            report.sections.append(("Failed tasks of Airflow", why_failed(airflow)))
    return report


def pytest_configure() -> None:
    """Let no test remember what another one has seen, nor leave that in the home of who runs them; time no example."""
    os.environ[last_seen.VARIABLE] = "off"
    # A limit on the time of an example fails on a busy machine, and says nothing of what is tested.
    settings.register_profile("untimed", deadline=None)
    settings.load_profile("untimed")


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Keep thousands of tests out of what Python looks through for garbage: they stay, and each look takes long."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A server with wal_level=logical, slots and senders to spare, and the locales of the tests."""
    with running(PostgresServer(settings={"max_wal_senders": "20", "max_replication_slots": "20"})) as server:
        yield server


@pytest.fixture
def new_database(postgres: PostgresServer) -> Iterator[Callable[..., Address]]:
    """Makes an empty database and returns its address; it goes with its slots when the test ends.

    Of hundreds that were left, the server would look after one each tenth of a second.
    """
    admin = Address(postgres.url(), postgres.password)
    made: list[str] = []

    def make(options: str = "") -> Address:
        name = f"test_{next(_numbers)}"
        with connect(admin) as session:
            session.execute(f"create database {name} strategy file_copy {options}".encode())  # half as long
        made.append(name)
        return Address(postgres.url(name), postgres.password)

    yield make
    with connect(admin) as session:
        left = session.execute(
            "select distinct database::text from pg_replication_slots where database = any(%s) and active_pid is null",
            (made,),
        ).fetchall()
    for (name,) in left:
        drop_slots(Address(postgres.url(name), postgres.password))
    with connect(admin) as session:
        for name in made:
            # What a killed session still reads, or a prepared transaction holds, stays until the server goes.
            with suppress(psycopg.Error):
                session.execute(f"drop database if exists {name} with (force)".encode())


@pytest.fixture
def address(new_database: Callable[..., Address]) -> Address:
    """The address of an empty database."""
    return new_database()
