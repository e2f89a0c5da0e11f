"""Databases on a server that is set up as it is installed, and archives."""

from __future__ import annotations

import itertools
import logging
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Literal

import pytest

from bench.support.faults.restarted import RestartedServer
from bench.support.versitygw import S3Server, running_versitygw
from holdfast.archive import Archive, locks
from holdfast.archive.archive import IDENTITY_KEY
from holdfast.archive.format.runs import read_last
from holdfast.common.errors import HoldfastError, exit_code_of
from holdfast.operations import backup_run, job_process
from holdfast.operations.executor_choice import check_hand_over
from holdfast.operations.requests.backup import BackupRequest
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.server import PostgresServer
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.connection.sql import ident
from holdfast.storage import ObjectStore, open_store
from holdfast.storage.encryption.key_source import new_key
from locking import Owner
from sparkjobs import backup, restore
from sparkjobs.driver import application
from tests.support.archives import maintaining
from tests.support.jobs import command
from tests.support.jobs.application_arguments import parse_request
from tests.support.jobs.inline_jobs import Ran, RunJob, SteadyExecutor, session_arguments
from tests.support.jobs.sudden_jobs import SuddenJobs
from tests.support.servers.versions import older_server, programs_of, running

_numbers = itertools.count(1)

# Spark's gateway says goodbye when Python exits, into handlers that pytest has closed by then.
logging.getLogger("py4j").setLevel(logging.WARNING)


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    """An S3 server with a bucket `backups`."""
    with running_versitygw() as server:
        server.make_bucket("backups")
        yield server


@pytest.fixture(scope="session", autouse=True)
def logs_of_failed_jobs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep them out of the machine's own temporary folder."""
    command.SURROUNDINGS["TMPDIR"] = str(tmp_path_factory.mktemp("logs"))
    yield
    command.SURROUNDINGS.clear()


@pytest.fixture
def on_spark() -> None:
    """Jobs of this process run by Spark, where a test asks for this."""


@pytest.fixture(autouse=True)
def inline(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """All other jobs of this process run without Spark, one task after the other."""
    if "on_spark" not in request.fixturenames:
        monkeypatch.setattr(application, "make_executor", lambda operation: SteadyExecutor())


@pytest.fixture(scope="session")
def plain_postgres() -> Iterator[PostgresServer]:
    """A server without wal_level=logical: a snapshot waits for nobody there."""
    with running(PostgresServer(settings={"wal_level": "replica"})) as server:
        yield server


@pytest.fixture(scope="session")
def create_database(plain_postgres: PostgresServer) -> Callable[..., Address]:
    """Makes a database, runs statements in it and returns its address."""

    def create(*statements: str) -> Address:
        name = f"db_{next(_numbers)}"
        with connect(Address(plain_postgres.url(), plain_postgres.password)) as session:
            session.execute(f"create database {name}".encode())
        address = Address(plain_postgres.url(name), plain_postgres.password)
        with connect(address) as session:
            for statement in ("set search_path = public", *statements):
                session.execute(statement.encode())
        return address

    return create


@pytest.fixture(scope="session")
def server_of(plain_postgres: PostgresServer) -> Iterator[Callable[[int], PostgresServer]]:
    """Gives the server of a major version, started when it is first asked for."""
    with ExitStack() as stack:
        servers = {18: plain_postgres}

        def give(major: int) -> PostgresServer:
            if major not in servers:
                servers[major] = stack.enter_context(running(older_server(major)))
            return servers[major]

        yield give


@pytest.fixture(scope="session")
def create_on(server_of: Callable[[int], PostgresServer]) -> Callable[..., Address]:
    """Makes a database on the server of a version, runs statements in it and returns its address."""

    def create(major: int, *statements: str, name: str = "", options: str = "") -> Address:
        server = Address(server_of(major).url(), server_of(major).password)
        name = name or f"version_{next(_numbers)}"
        with connect(server) as session:
            session.execute(f"create database {ident(name)} {options}".encode())
        address = server.at_database(name)
        with connect(address) as session:
            for statement in ("set search_path = public", *statements):
                session.execute(statement.encode())
        return address

    return create


@pytest.fixture(params=[18, *(pytest.param(major, marks=pytest.mark.exhaustive) for major in (14, 15, 16, 17))])
def major(request: pytest.FixtureRequest) -> int:
    """The version of source and target."""
    found: int = request.param
    return found


@pytest.fixture(
    scope="session", params=[14, *(pytest.param(each, marks=pytest.mark.exhaustive) for each in (15, 16, 17))]
)
def older(request: pytest.FixtureRequest) -> Iterator[PostgresServer]:
    """The server of an older release."""
    with running(PostgresServer(programs=programs_of(request.param))) as server:
        yield server


@pytest.fixture(scope="module")
def server() -> Iterator[RestartedServer]:
    """A server that a module's tests may end and start again."""
    with RestartedServer(settings={"max_wal_senders": "9", "max_replication_slots": "9"}) as server:
        yield server


@pytest.fixture(scope="session")
def two_sudden(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[SuddenJobs, SuddenJobs]]:
    """Who runs jobs that are killed, two at a time: each has imported all they need, which takes seconds."""
    with ExitStack() as stack:
        first, second = (SuddenJobs(tmp_path_factory.mktemp("sudden") / "jobs") for _ in range(2))
        for each in (first, second):
            stack.callback(each.close)
        yield first, second


@pytest.fixture
def archive_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the archive encrypted: native code does not come back from one that anybody could have written to."""
    key = tmp_path / "key"
    key.touch(0o600)
    key.write_text(new_key())
    monkeypatch.setenv("HOLDFAST_KEY", f"file:{key}")


@pytest.fixture
def store(tmp_path: Path) -> ObjectStore:
    """An empty archive in a folder."""
    return Archive.create(open_store(str(tmp_path / "archive")), name="shop").store


@pytest.fixture
def job_locks(store: ObjectStore) -> Iterator[locks.HeldLocks]:
    """The locks of a backup of `shop`, held by us."""
    with locks.acquire(store, "backup", sources=["shop"], owner=Owner(), purpose="test", wait=0) as held:
        yield held


@pytest.fixture
def job_environment(monkeypatch: pytest.MonkeyPatch, job_locks: locks.HeldLocks) -> Callable[..., None]:
    """Makes this process look like a job that the command has started; Spark runs in it, too."""

    def make(address: Address, role: Literal["source", "target"]) -> None:
        for name, value in job_process.job_environment(address.url, address.password, job_locks, role).items():
            monkeypatch.setenv(name, value)

    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", session_arguments("local[2,4]"))
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv(job_process.LOCKS_VARIABLE, job_locks.handles())
    return make


@pytest.fixture
def run_backup(store: ObjectStore, job_environment: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> RunJob:
    """Backs up a database as `shop` in this process; returns the exit code and the run's last record."""

    def back_up(address: Address, *arguments: str) -> Ran:
        job_environment(address, "source")
        run = f"backup-{next(_numbers)}"
        given = ["--archive", store.url, "--source", "shop", "--run", run, *arguments]
        codes = []

        def attempt(more: Mapping[str, str]) -> str:
            for name, value in more.items():
                monkeypatch.setenv(name, value)
            codes.append(backup.main(given))
            check_hand_over("backup", codes[-1])
            return ""

        try:
            backup_run.run_to_the_end(store, run, address, request=parse_request(BackupRequest, given), attempt=attempt)
        except HoldfastError as error:
            codes.append(exit_code_of(error))
        code, record = codes[-1], read_last(store, run)
        assert record is not None
        return code, record

    return back_up


@pytest.fixture
def run_restore(store: ObjectStore, job_environment: Callable[..., None]) -> RunJob:
    """Restores into a database in this process; returns the exit code and the run's last record."""

    def bring_back(address: Address, *arguments: str) -> Ran:
        job_environment(address, "target")
        run = f"restore-{next(_numbers)}"
        code = restore.main(["--archive", store.url, "--run", run, *arguments])
        record = read_last(store, run)
        assert record is not None
        return code, record

    return bring_back


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the files of the one backup of these tests are kept."""
    return tmp_path_factory.mktemp("template")


@pytest.fixture
def backed_up(template: Path, store: ObjectStore, run_backup: RunJob, shop: Address) -> None:
    """One backup of the module's `shop` in the archive: the first test makes it, the others copy it."""
    archive = Path(store.url)
    if not any(template.iterdir()):
        assert run_backup(shop)[0] == 0
        for name in ("commits", "data"):
            shutil.copytree(archive / name, template / name)
        shutil.copy(archive / IDENTITY_KEY, template)  # commits name their archive
    shutil.copytree(template, archive, dirs_exist_ok=True)


@pytest.fixture
def filled(store: ObjectStore) -> ObjectStore:
    """An archive with the full backups of four days."""
    for number in range(1, 5):
        maintaining.back_up(store, number)
    return store


@pytest.fixture
def maintain(filled: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> maintaining.RunMaintenance:
    """Runs an application in this process; returns the exit code and the run's last record."""
    return partial(maintaining.run_maintenance, filled, monkeypatch)
