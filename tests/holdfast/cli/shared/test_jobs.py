"""The commands that run a Spark job, with Spark played by the test."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from holdfast.archive import locks
from holdfast.archive.format.runs import RunLog
from holdfast.common.errors import RefusedError
from holdfast.operations import job_process
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.server import PostgresServer
from holdfast.storage import ObjectStore
from locking import Owner, inspect
from locking.store import StoreUnavailable
from tests.support.jobs.command import RunCommand
from tests.support.servers.postgres import passing_database

pytestmark = pytest.mark.service

RESULT = {"commit": 1, "kind": "full", "rows": 7, "bytes": 70, "tables": 2, "seconds": 1.5}
RESULT |= {"restorable_to": "2026-03-01T12:00:00Z", "not_included": ["foreign table a.b"], "snapshot_note": "replica"}

Part = Callable[[ObjectStore, str, Path], int]
"""Plays Spark: gets the archive, the run and the job's log; returns the exit code."""

PlaySpark = Callable[[Part], dict[str, Any]]


@pytest.fixture
def play_spark(store: ObjectStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> PlaySpark:
    """Puts a part in Spark's place; the dictionary it returns tells how Spark was started."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def play(part: Part) -> dict[str, Any]:
        started: dict[str, Any] = {}

        def submit(
            application: str, arguments: Sequence[str], environment: Mapping[str, str], *, log: Path, **more: Any
        ) -> int:
            locks.attach(store, environment["HOLDFAST_LOCKS"]).check()
            started.update(application=application, arguments=list(arguments), environment=dict(environment))
            run = arguments[arguments.index("--run") + 1]
            more["on_tick"]()
            return part(store, run, log)

        monkeypatch.setattr(job_process, "submit", submit)
        return started

    return play


def succeed(store: ObjectStore, run: str, log: Path) -> int:
    with RunLog(store, run, "backup") as record:
        record.progress("reading tables", rows=5, size=1_000_000, estimated_rows=7)
        record.result = RESULT
    return 0


def logs(tmp_path: Path) -> list[Path]:
    return list(tmp_path.glob("holdfast-*.log"))


def test_a_backup_prints_its_summary(
    holdfast: RunCommand, store: ObjectStore, address: Address, play_spark: PlaySpark, tmp_path: Path
) -> None:
    address = with_password(address)
    started = play_spark(succeed)
    done = holdfast("backup", store.url, "--source", address.url, "--tables", "a.*", "--json")
    wall_s = done.value["wall_s"]
    assert (done.code, done.value) == (0, {**RESULT, "wall_s": wall_s})
    assert "not included: foreign table a.b" in done.err
    assert "the log position is approximate: replica" in done.err
    assert started["application"] == "backup"
    asked = ["--source", address.database, "--tables", "a.*", "--chosen"]
    assert started["arguments"][4 : 4 + len(asked)] == asked
    assert inspect(store) == []
    assert logs(tmp_path) == []
    assert 0 < wall_s < 60  # of the command, and not the 1.5 s that its job took
    shown = holdfast("backup", store.url, "--source", address.url)
    assert re.fullmatch(
        r"commit 1: 7 rows of 2 tables in 70 B, \d+\.\d s \(\S+ rows/s\); restorable to 2026-03-01T12:00:00Z\n",
        shown.out,
    )
    assert "1.5 s" not in shown.out


@pytest.fixture(scope="module")
def address(postgres: PostgresServer) -> Iterator[Address]:
    """A database that nothing is written into: jobs are played."""
    with passing_database(postgres) as made:
        yield made


@pytest.fixture(autouse=True)
def password(monkeypatch: pytest.MonkeyPatch, postgres: Any) -> str:
    monkeypatch.setenv("PGPASSWORD", postgres.password)
    return str(postgres.password)


def with_password(address: Address) -> Address:
    assert address.password
    assert address.password not in address.url
    return address


def test_the_password_reaches_the_job_by_its_environment_alone(
    holdfast: RunCommand,
    store: ObjectStore,
    address: Address,
    play_spark: PlaySpark,
    password: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("PGPASSWORD")
    started = play_spark(succeed)
    done = holdfast("backup", store.url, "--source", address.url.replace("@", f":{password}@"))
    assert done.code == 0
    assert [name for name, value in started["environment"].items() if password in value] == ["PGPASSWORD"]
    assert password not in " ".join(started["arguments"]) + done.out + done.err
    files = [path for path in Path(store.url).rglob("*") if path.is_file()]
    assert [path for path in files if password.encode() in path.read_bytes()] == []


def refuse(store: ObjectStore, run: str, log: Path) -> int:
    with pytest.raises(RefusedError), RunLog(store, run, "backup"):
        raise RefusedError("reader may not read public.secrets: grant it")
    return 5


def fail(store: ObjectStore, run: str, log: Path) -> int:
    with pytest.raises(ConnectionError), RunLog(store, run, "backup"):
        raise ConnectionError("cut")
    return 1


def be_killed(store: ObjectStore, run: str, log: Path) -> int:
    RunLog(store, run, "backup").progress("reading tables")
    return -9


@pytest.mark.parametrize(
    ("part", "code", "sentence", "log_kept"),
    [
        (refuse, 5, "reader may not read public.secrets: grant it", False),
        (fail, 1, r"ConnectionError: cut \(the job's log: .*\.log\)", True),
        (
            be_killed,
            1,
            r"the job's process was ended by SIGKILL while reading tables before .* try again \(the job's log: .*\)",
            True,
        ),
    ],
)
def test_a_job_that_failed_is_told_in_its_own_words_or_by_how_it_ended(
    holdfast: RunCommand,
    store: ObjectStore,
    address: Address,
    play_spark: PlaySpark,
    tmp_path: Path,
    part: Part,
    code: int,
    sentence: str,
    log_kept: bool,
) -> None:
    play_spark(part)
    done = holdfast("backup", store.url, "--source", address.url, "--json")
    assert (done.code, done.value["exit_code"]) == (code, code)
    assert re.fullmatch(sentence, done.value["error"])
    assert bool(logs(tmp_path)) == log_kept
    assert inspect(store) == []


def test_a_store_that_is_gone_at_the_end_leaves_the_outcome_unknown(
    holdfast: RunCommand, store: ObjectStore, address: Address, play_spark: PlaySpark, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut(store: ObjectStore, run: str) -> None:
        raise StoreUnavailable("cut")

    monkeypatch.setattr(
        "holdfast.archive.format.runs.read_last", cut
    )  # progress cannot be read either, which ends nothing
    play_spark(succeed)
    done = holdfast("backup", store.url, "--source", address.url, "--json")
    assert (done.code, done.value["exit_code"]) == (6, 6)
    assert "look with 'holdfast status' before trying again" in done.value["error"]


def test_a_command_that_is_interrupted_releases_its_locks(
    holdfast: RunCommand, store: ObjectStore, address: Address, play_spark: PlaySpark, tmp_path: Path
) -> None:
    def interrupt(store: ObjectStore, run: str, log: Path) -> int:
        raise KeyboardInterrupt

    play_spark(interrupt)
    done = holdfast("backup", store.url, "--source", address.url, "--json")
    stopped = "stopped, and its locks were released; run it again to continue"
    assert (done.code, done.value["error"]) == (130, stopped)
    assert (inspect(store), logs(tmp_path)) == ([], [])


def test_a_backup_is_told_who_holds_its_lock(
    holdfast: RunCommand, store: ObjectStore, address: Address, play_spark: PlaySpark
) -> None:
    started = play_spark(succeed)
    owner = Owner(scope="task", dag_id="backup", run_id="r1", task_id="back_up")
    with locks.acquire(store, "backup", sources=[address.database], owner=owner, purpose="backup r1", wait=0):
        done = holdfast("backup", store.url, "--source", address.url, "--json")
    assert (done.code, started) == (3, {})
    assert f"ingest-{address.database}" in done.value["error"]
    assert "task back_up of dag backup (run r1)" in done.value["error"]


def nothing_was_started(store: ObjectStore) -> bool:
    return not inspect(store) and not store.list("runs/").objects


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        (("/made", "/nope_made"), 2, "there is no database 'nope_made.*create it with createdb"),
        (("postgres@", "postgres:wrong@"), 1, "refused the log-in: set PGPASSWORD or ~/.pgpass"),
        ((r":\d+/", ":1/"), 1, "cannot connect to .*refused. Is the server running and reachable from here"),
        (("postgresql:", "mysql:"), 2, "no PostgreSQL address: write postgresql://user@host:port/database"),
        ((r"postgresql://.*", "shop_db"), 2, "archives.yaml has no archive"),
    ],
)
def test_a_database_that_cannot_be_used_is_told_before_anything_is_started(
    holdfast: RunCommand,
    filled: ObjectStore,
    address: Address,
    monkeypatch: pytest.MonkeyPatch,
    change: tuple[str, str],
    code: int,
    words: str,
) -> None:
    if "wrong" in change[1]:
        monkeypatch.delenv("PGPASSWORD")
    url = re.sub(*change, address.url, count=1)
    done = holdfast("backup", filled.url, "--source", url, "--json")
    assert done.code == code
    assert re.search(words, done.value["error"])
    assert "wrong" not in done.out + done.err
    assert nothing_was_started(filled)


def test_a_database_whose_name_cannot_name_a_source_is_refused(holdfast: RunCommand, store: ObjectStore) -> None:
    done = holdfast("backup", store.url, "--source", "postgresql://me@here/my%20shop", "--json")
    assert (done.code, "give it a name of its own in archives.yaml" in done.value["error"]) == (2, True)
    assert "'my shop'" in done.value["error"]


def test_a_machine_without_java_is_told_before_any_lock_is_taken(
    holdfast: RunCommand, store: ObjectStore, address: Address, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("HOLDFAST_EXECUTOR", "spark")
    done = holdfast("backup", store.url, "--source", address.url, "--json")
    assert (done.code, "install openjdk-17-jre-headless" in done.value["error"]) == (1, True)
    assert nothing_was_started(store)


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (["--at", "2026-03-01T12:30:00Z"], 5, "the nearest restorable moments are: before it 2026-03-01T12:00:00"),
        (["--source", "crm"], 2, "it has: shop_db"),
    ],
)
def test_a_moment_that_cannot_be_restored_is_refused_before_anything_is_started(
    holdfast: RunCommand, filled: ObjectStore, address: Address, options: list[str], code: int, words: str
) -> None:
    done = holdfast("restore", filled.url, "--to", address.url, *options, "--json")
    assert (done.code, words in done.value["error"]) == (code, True)
    assert nothing_was_started(filled)


def test_a_restore_prints_what_it_restored(
    holdfast: RunCommand, filled: ObjectStore, address: Address, play_spark: PlaySpark, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = {"commit": 1, "source": "shop_db", "rows": 3, "tables": 1, "seconds": 2.0, "equal": True}
    result |= {"restored_to": "2026-03-01T12:00:00Z", "read_from": {"replica": None}}

    def bring_back(store: ObjectStore, run: str, log: Path) -> int:
        with RunLog(store, run, "restore") as record:
            record.result = result
        return 0

    started = play_spark(bring_back)
    done = holdfast("restore", filled.url, "--to", address.url, "--at", "commit:1", "--json")
    assert (done.code, done.value) == (0, {**result, "wall_s": done.value["wall_s"]})
    assert started["arguments"][-2:] == ["--at", "commit:1"]
    assert started["environment"]["HOLDFAST_TARGET_URL"] == address.url
    shown = holdfast("restore", filled.url, "--to", address.url)
    line = (
        r"restored shop_db to 2026-03-01T12:00:00Z \(commit 1\): 3 rows of 1 table in (\S+) s, equal to the archive\n"
    )
    assert re.fullmatch(line, shown.out)


NOT_RESTORED = {"object": "view a.v", "reason": "views do not come with chosen tables", "statement": ""}
ADD_LATER = {"object": "foreign key a.o k", "reason": "a.c is missing", "statement": "ALTER TABLE a.o ADD k;"}
PLAN = {
    "tables": [{"from": "a.o", "to": "b.o2", "rows": 1000, "bytes": 10, "changes": 0}],
    "objects": [{"kind": "index", "name": "a.x"}, {"kind": "index", "name": "a.y"}, {"kind": "type", "name": "a.t"}],
    "renamed": [{"from": "index a.x", "to": "b.x1"}],
    "skipped_existing": ["type a.t"],
    "not_restored": [NOT_RESTORED, ADD_LATER],
    "touches": ["a.c: writes wait"],
    "database": [],
    "unchanged": [],
    "roles": {
        "created": ["clerk"],
        "without_password": ["clerk"],
        "differences": ["boss: LOGIN in the target"],
        "joined": [],
    },
}


def test_a_dry_run_prints_the_plan(
    holdfast: RunCommand, filled: ObjectStore, address: Address, play_spark: PlaySpark
) -> None:
    result = {"commit": 1, "source": "shop_db", "rows": 1000, "tables": 1, "bytes": 10, "dry_run": True, "plan": PLAN}
    result |= {"changes": 20, "disk_bytes": 8192}
    result |= {"restored_to": "2026-03-01T12:00:00Z", "read_from": {"replica": None}}

    def plan(store: ObjectStore, run: str, log: Path) -> int:
        with RunLog(store, run, "restore") as record:
            record.say("something to know")
            record.result = result
        return 0

    started = play_spark(plan)
    options = ["--tables", "a.*", "--tables", "c.d", "--map", "a=b", "--dry-run"]
    options += ["--roles", "create", "--tablespaces", "keep", "--strict", "--trust-source"]
    done = holdfast("restore", filled.url, "--to", address.url, *options, "--json")
    assert (done.code, done.value) == (0, {**result, "wall_s": done.value["wall_s"]})
    assert "something to know" in done.err
    expected = ["--tables", "a.*", "--tables", "c.d", "--map", "a=b", "--roles", "create", "--tablespaces", "keep"]
    expected += ["--strict", "--trust-source", "--dry-run"]
    assert started["arguments"][-len(expected) :] == expected
    assert holdfast("restore", filled.url, "--to", address.url, *options).out == (
        "would restore shop_db to 2026-03-01T12:00:00Z (commit 1): "
        "1,000 rows and 20 changes since of 1 table, 10 B stored\n"
        "  a.o → b.o2: 1,000 rows\n"
        "on the source's disk, these tables had 8.2 kB without their indexes\n"
        "with them:\n"
        "  2 index, 1 type\n"
        "renamed with their tables:\n"
        "  index a.x → b.x1\n"
        "in the target already, left as they are:\n"
        "  type a.t\n"
        "in the target, affected:\n"
        "  a.c: writes wait\n"
        "roles that will be created:\n"
        "  clerk\n"
        "roles that will need a password to log in:\n"
        "  clerk\n"
        "roles that are there, left as they are:\n"
        "  boss: LOGIN in the target\n"
        "not restored:\n"
        "  view a.v: views do not come with chosen tables\n"
        "  foreign key a.o k: a.c is missing\n"
        "    ALTER TABLE a.o ADD k;\n"
        "nothing was changed\n"
    )


def test_a_map_that_is_none_is_refused_before_anything_is_started(
    holdfast: RunCommand, filled: ObjectStore, address: Address
) -> None:
    done = holdfast("restore", filled.url, "--to", address.url, "--map", "public", "--json")
    assert (done.code, "--map public: say schema=schema" in done.value["error"]) == (2, True)
    assert nothing_was_started(filled)
