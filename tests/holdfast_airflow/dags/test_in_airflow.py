"""What a running Airflow does: the demo, locks of people's DAGs, and looking after an encrypted archive and replicas.

All of it in one Airflow, the demo's, since starting one takes longer than most of its tests. The archive `trio` has,
as processes, what docker-compose.yaml starts: three replicas in buckets, a quorum of two, Spark's master with two
workers, a coordination store in PostgreSQL.
"""

from __future__ import annotations

import io
import json
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psutil
import pytest
import yaml
from playwright.sync_api import expect
from rich.console import Console

from bench.support.browser import browser
from bench.support.spark_cluster import SparkCluster, running_cluster
from bench.support.versitygw import SECRET_KEY, S3Server, running_versitygw
from demo.__main__ import start
from demo.airflow import AirflowStandalone
from demo.airflow_api import AirflowApiError
from demo.screen import Screen
from demo.story import Story
from demo.supervisor import descendants
from holdfast.archive import Archive
from holdfast.archive.history.coverage import covered_ranges
from holdfast.archive.maintenance.verify import verify
from holdfast.operations.executor_choice import FORCED_VARIABLE
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.server import PostgresServer
from holdfast.postgresql.connection.session import connect
from holdfast.replication.log.replicas import mark_lost, replica
from holdfast.replication.log.store import CoordinationStore
from holdfast.replication.work.membership import begin_membership
from holdfast.storage import ObjectStore, open_store
from holdfast.storage.encryption.key_source import ENVIRONMENT, new_key
from locking import Owner, RWLock, inspect
from tests.support.airflow.airflow_dags import (
    ARCHIVES,
    KEPT_DAG,
    LOCKED_DAG,
    MAPPED_DAG,
    PAUSED_DAG,
    POLICY,
    PROTECTED_DAG,
    REAPER_DAG,
)
from tests.support.airflow.browser import Watched, log_in, new_context, pictures
from tests.support.airflow.failed_tasks import why_failed
from tests.support.following.followed import open_followed
from tests.support.jobs.command import all_gone, until
from tests.support.jobs.command_here import run_here
from tests.support.jobs.leftovers import check_demo_archive, files_with, processes_of
from tests.support.replicas.replicated import Replicas
from tests.support.servers.postgres import create_database, drop_slots, passing_database

pytestmark = pytest.mark.service

ROOT = Path(__file__).parents[3]
REPLICAS = ("near", "far", "third")

LOCKING_DAGS = {
    "report": LOCKED_DAG,
    "ledger": KEPT_DAG,
    "interrupted": PAUSED_DAG,
    "mapped": MAPPED_DAG,
    "reaper": REAPER_DAG,
}


@dataclass(frozen=True)
class Stage:
    """Where all of it happens.

    :param story: of the demo, with its Airflow.
    :param folder: of the demo.
    :param words: what the demo says.
    """

    story: Story
    folder: Path
    words: io.StringIO

    @property
    def airflow(self) -> AirflowStandalone:
        """The demo's Airflow."""
        return self.story.airflow


@pytest.fixture(scope="module")
def crm(postgres: PostgresServer) -> Address:
    """A database with one table."""
    made = create_database(postgres)
    with connect(made) as session:
        session.execute("create table public.customers as select i as id from generate_series(1, 50) i")
    return made


@pytest.fixture(scope="module")
def accounts(postgres: PostgresServer) -> Iterator[Address]:
    """A database with a table that is to be migrated."""
    made = create_database(postgres)
    with connect(made) as session:
        session.execute("create table public.accounts (id int primary key, n int)")
        session.execute("insert into public.accounts select i, i from generate_series(1, 50) i")
    yield made
    drop_slots(made)


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory, postgres: PostgresServer) -> ObjectStore:
    """An encrypted archive with a full backup and four of changes."""
    folder = tmp_path_factory.mktemp("maintenance")
    (folder / "key").write_text(new_key())
    with pytest.MonkeyPatch.context() as patch, passing_database(postgres) as source:
        patch.setenv(ENVIRONMENT, f"file:{folder / 'key'}")
        with open_followed(source, folder / "archive") as followed:
            followed.run("create table orders (id int primary key, word text)")
            followed.run("insert into orders select i, 'new' from generate_series(1, 100) i")
            for number in range(5):
                followed.run(f"update orders set word = 'after {number}'")
                followed.back_up("changes")
    return open_store(str(folder / "archive"), f"file:{folder / 'key'}")


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    """An S3 server with a bucket for each replica, which is the only one that the environment names."""
    with running_versitygw() as server, pytest.MonkeyPatch.context() as patch:
        for name in REPLICAS:
            server.make_bucket(name)
        for name, value in server.environment.items():
            patch.setenv(name, value)
        yield server


@pytest.fixture(scope="module")
def cluster() -> Iterator[SparkCluster]:
    """Spark's master with two workers, which know nothing of what Airflow knows."""
    with running_cluster(spark_eventLog_enabled="false") as made:
        yield made


class InBuckets(Replicas):
    """Replicas with a bucket for each."""

    def place(self, name: str) -> ObjectStore:
        return open_store(f"s3://{name}/trio")


@pytest.fixture(scope="module")
def trio(archive: ObjectStore, s3: S3Server, postgres: PostgresServer) -> Iterator[Replicas]:
    """An empty archive with three replicas, which are there before Airflow's first sync."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOLDFAST_STORE_PASSWORD", postgres.password)
        with CoordinationStore.open(create_database(postgres).url) as coordination:
            made = InBuckets(Path(archive.url).parent, coordination)
            made.archive = Archive.create(made.place("near"), name="trio").identity.id
            begin_membership(coordination, made.place("near"), "near")
            for name in REPLICAS[1:]:
                made.add(name)
            yield made


@pytest.fixture(scope="module")
def copy(postgres: PostgresServer) -> Address:
    """An empty database to restore into."""
    return create_database(postgres)


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> ObjectStore:
    """A place with nothing but locks."""
    return open_store(str(tmp_path_factory.mktemp("locked")))


@pytest.fixture(scope="module")
def stage(
    tmp_path_factory: pytest.TempPathFactory,
    archive: ObjectStore,
    trio: Replicas,
    cluster: SparkCluster,
    crm: Address,
    copy: Address,
    accounts: Address,
    locked: ObjectStore,
    postgres: PostgresServer,
) -> Iterator[Stage]:
    """The demo's servers, with more archives, and three of somebody else's DAGs."""
    settings = tmp_path_factory.mktemp("airflow")
    (settings / "airflow_local_settings.py").write_text(POLICY)
    dags = settings / "dags"
    dags.mkdir()
    for name, text in LOCKING_DAGS.items():
        (dags / f"{name}.py").write_text(text.format(url=locked.url))
    (dags / "migrate_accounts.py").write_text(PROTECTED_DAG.format(url=accounts.conninfo()))
    Archive.create(open_store(str(trio.folder / "accounts")), name="accounts")
    # Of a source that is gone: what looks after an archive asks its sources nothing.
    words = {"key": trio.folder / "key", "url": postgres.url("gone"), "crm": crm.url, "folder": trio.folder}
    words |= {"accounts": accounts.url, "store": trio.coordination.url}
    conf = {name: value for name, value in cluster.environment.items() if name.startswith("SPARK_")}
    folder, said = tmp_path_factory.mktemp("demo") / "demo", io.StringIO()
    with ExitStack() as stack:
        story = start(
            stack,
            Screen(Console(file=said, width=200)),
            PostgresServer(),
            folder,
            0.05,
            dags=dags,
            archives=yaml.safe_load(ARCHIVES.format(**words)),
            env={
                "PGPASSWORD": postgres.password,
                "AIRFLOW_CONN_SPARK_CLUSTER": json.dumps({"conn_type": "spark", "host": cluster.url}),
                "AIRFLOW_CONN_COPY": copy.url,
                **conf,
                "PYTHONPATH": os.pathsep.join([str(settings), str(ROOT)]),  # the policy, and the notifier
                # No file changes here: reading all of them again takes seven CPU seconds.
                "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "3600",
            },
        )
        for name in LOCKING_DAGS:
            story.airflow.api.wait_for_dag(name)
        yield Stage(story, folder, said)


@pytest.fixture(scope="module")
def airflow(stage: Stage) -> AirflowStandalone:
    """A running Airflow."""
    return stage.airflow


def ended(airflow: AirflowStandalone, name: str, run_id: str, timeout: float = 300) -> str:
    """Wait until a run has ended and return its state; each look takes Airflow's CPU time."""
    return airflow.api.wait_for_run(name, run_id, timeout=timeout, poll=0.5)


def run(airflow: AirflowStandalone, operation: str, task: str, archive: str = "books", **form: Any) -> dict[str, Any]:
    """Run a DAG with what its form says; return what a task passed on."""
    name = f"{operation}_{archive}"
    airflow.api.wait_for_dag(name)
    run_id = airflow.api.trigger(name, form)
    assert ended(airflow, name, run_id) == "success"
    passed_on = airflow.api.xcom(name, run_id, task)
    assert isinstance(passed_on, dict)
    return passed_on


@pytest.mark.e2e
def test_everything_in_the_demo_holds(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Backups and restores are by Airflow's operators and Spark; the one restore by the command is inline."""
    story = stage.story
    monkeypatch.setenv(FORCED_VARIABLE, "inline")
    story.play(every_moment=False)
    assert story.screen.report(story.lines, []), stage.words.getvalue()
    assert "reading tables" in stage.words.getvalue()
    assert len([line for line in story.lines if line.what.startswith("restore of a time between two writes")]) == 1
    check_demo_archive(story.archive)


def test_the_page_the_form_a_run_and_its_log_show_the_demo(airflow: AirflowStandalone) -> None:
    """The pictures of the documentation are made here."""
    watched = Watched()
    with browser() as started:
        page = watched.watch(new_context(started).new_page())
        log_in(page, airflow.url, {airflow.username: airflow.password}, airflow.username)
        page.goto(f"{airflow.url}/plugin/holdfast#archive=shop")
        frame = page.frame_locator("iframe")
        frame.get_by_role("link", name="shop", exact=True).click()
        expect(frame.locator("svg.line rect.gap")).to_have_count(1)
        expect(frame.locator("svg.line .mark text")).to_have_text("before the mistake")
        expect(frame.locator("article.verdict .badge")).to_have_text("Ready")
        mark = frame.locator("svg.line .mark line").bounding_box()
        assert mark
        page.mouse.click(mark["x"], mark["y"] + mark["height"] / 2)
        expect(frame.locator("#sources").get_by_text("Can be restored:")).to_be_visible()
        page.screenshot(path=pictures() / "page.png")

        page.goto(f"{airflow.url}/dags/restore_shop")
        page.get_by_role("button", name="Trigger").click()
        expect(page.get_by_text("Target connection")).to_be_visible()
        page.screenshot(path=pictures() / "form.png")

        runs = page.request.get(f"{airflow.url}/api/v2/dags/backup_shop/dagRuns", params={"order_by": "-run_after"})
        run_id = runs.json()["dag_runs"][0]["dag_run_id"]
        page.goto(f"{airflow.url}/dags/backup_shop/runs/{quote(run_id)}/tasks/backup_shop_db")
        expect(page.get_by_text("restorable to").first).to_be_visible()
        page.screenshot(path=pictures() / "log.png")
    assert watched.problems == []


def test_an_archive_is_looked_after_by_its_dags(airflow: AirflowStandalone, archive: ObjectStore) -> None:
    begin = covered_ranges(Archive.open(archive).state, "shop")
    assert run(airflow, "migration", "migrate")["format"] == 2
    assert run(airflow, "truncation", "truncate", keep=["last=1"], dry_run=True)["dry_run"]
    assert covered_ranges(Archive.open(archive).state, "shop") == begin

    compacted = run(airflow, "compaction", "compact", consolidate=True)
    assert compacted["blocks_removed"] >= 4
    assert (compacted["blocks_added"], compacted["consolidated"]) == (2, ["shop"])

    run(airflow, "truncation", "truncate", keep=["last=1"])  # and the vacuum behind it
    assert run(airflow, "vacuum", "vacuum", dry_run=True)["files"] == 0

    verified = run(airflow, "archive_verification", "verify", deep=True)
    assert verified["files"] > 0
    drilled = run(airflow, "restore_drill", "drill_shop", at="latest")
    assert drilled["equal"]
    assert [each["holds"] for each in drilled["assertions"]] == [True]

    assert verify(Archive.open(archive), deep=True).damage == ()
    assert len(covered_ranges(Archive.open(archive).state, "shop")) == 1
    assert [info for info in inspect(archive) if info.state not in ("dead", "expired")] == []
    assert airflow.api.import_errors() == {}


def test_a_migration_that_fails_can_be_gone_back_before(
    airflow: AirflowStandalone, stage: Stage, trio: Replicas, accounts: Address, postgres: PostgresServer
) -> None:
    name = "migrate_accounts"
    airflow.api.wait_for_dag(name)
    run_id = airflow.api.trigger(name, {"fail": True})
    assert ended(airflow, name, run_id) == "failed"
    states = {task.task_id.removeprefix("protected."): task.state for task in airflow.api.tasks(name, run_id)}
    assert states == {
        "backup_before": "success",
        "mark_before": "success",
        "migrate": "failed",
        "backup_after": "success",
        "mark_after": "success",
        "backup_mark_after": "success",
        "outcome": "upstream_failed",
    }
    target = create_database(postgres)
    for mark, rows in {"before 4.2": 1, "after 4.2": 100}.items():
        done = run_here(
            "restore",
            str(trio.folder / "accounts"),
            "--to",
            target.url,
            "--at",
            mark,
            "--map",
            f"public=s{rows}",
            "--json",
            address=target,
        )
        assert (done.code, done.value["stale"], done.value["schema_note"]) == (0, [], ""), done.err
        with connect(target) as session:
            assert session.execute(f"select n from s{rows}.accounts where id = 1".encode()).fetchone() == (rows,)


def test_who_is_named_in_the_configuration_is_told_of_a_failure_and_of_a_missed_deadline(
    airflow: AirflowStandalone, archive: ObjectStore
) -> None:
    name = "restore_drill_books"
    airflow.api.wait_for_dag(name)
    run_id = airflow.api.trigger(name, {"at": "1999-01-01T00:00:00Z"})
    assert ended(airflow, name, run_id) == "failed"
    alerts = Path(archive.url).with_name("alerts")
    assert alerts.read_text().startswith(f"{name}: ")
    assert "1999" in alerts.read_text()
    words = alerts.read_text().splitlines()
    assert any(line.startswith(f"{name}: ") and "has failed (exit code" in line for line in words), words
    assert "Runbook: docs/runbooks/drill-failed.md" in words
    assert any(line.startswith("Archive: ") and line.endswith("/holdfast/?archive=books") for line in words), words
    before = airflow.api.trigger(name, {"at": "1998-01-01T00:00:00Z"})
    assert ended(airflow, name, before) == "failed"
    assert sum("has failed (exit code" in line for line in alerts.read_text().splitlines()) == 1  # one cause
    late = f"{name}: run {run_id} of {name} is not done 0s after it was queued"
    until(lambda: late in alerts.read_text().splitlines(), "the alert of a missed deadline", 300)


def waits_without_a_worker(airflow: AirflowStandalone, trio: Replicas) -> dict[str, Any]:
    """Make a backup while too many replicas are busy, until they are not; return what its task passed on."""
    name = "backup_trio"
    with ExitStack() as busy:
        for each in REPLICAS[1:]:
            busy.enter_context(RWLock(trio.place(each), "replica").write(purpose="it is busy"))
        run_id = airflow.api.trigger(name, {"source": "crm"})
        deadline = time.monotonic() + 300

        def state() -> str | None:
            return next(task.state for task in airflow.api.tasks(name, run_id) if task.task_id == "backup_crm")

        while (is_at := state()) != "deferred":
            assert time.monotonic() < deadline, is_at
            assert is_at not in ("failed", "up_for_retry")
            time.sleep(0.5)
    run(airflow, "replica_sync", "sync_far", "trio")
    assert ended(airflow, name, run_id) == "success"
    passed_on = airflow.api.xcom(name, run_id, "backup_crm")
    assert isinstance(passed_on, dict)
    return passed_on


def test_replicas_are_kept_equal_by_their_dags(airflow: AirflowStandalone, trio: Replicas, s3: S3Server) -> None:
    done = waits_without_a_worker(airflow, trio)
    assert (done["rows"], done["quorum"]["size"], done["quorum"]["entry"]) == (50, 2, 1)
    assert {"near"} < set(done["quorum"]["replicas"]) <= {*REPLICAS}
    # The backup has begun a sync, too.
    assert run(airflow, "replica_sync", "sync_far", "trio")["index"] == 2
    assert trio.state("far").blocks.keys() == trio.state("near").blocks.keys()
    assert trio.is_whole("far")

    for path in (s3.folder / "far" / "trio" / "data").rglob("*.parquet"):
        path.unlink()
    trio.coordination.run(lambda c: mark_lost(c, trio.archive, "far", "its disk was changed"))
    # A run that the schedule has begun in the same moment may have done it: then there is nothing left.
    made = run(airflow, "lost_replica_recovery", "recover", "trio")["recovered"]
    assert [(each["replica"], each["index"]) for each in made] in ([("far", 2)], [])
    assert trio.is_whole("far")
    assert not trio.coordination.run(lambda c: replica(c, trio.archive, "far")).is_lost

    trimmed = run(airflow, "replica_log_trimming", "trim", "trio", min_keep=0, max_keep=10)
    assert (trimmed["log_start"], trimmed["lost"]) == (3, [])
    assert airflow.api.import_errors() == {}


def test_the_cluster_brings_back_what_it_has_backed_up(
    airflow: AirflowStandalone, trio: Replicas, cluster: SparkCluster, copy: Address
) -> None:
    assert (
        run(airflow, "restore", "restore", "trio", source="crm", target_connection="copy", dry_run=False)["rows"] == 50
    )
    with connect(copy) as session:
        assert session.execute("select sum(id) from public.customers").fetchone() == (1275,)
    assert cluster.applications >= 1, "that of the backup: so little is restored without Spark"
    assert files_with(SECRET_KEY, cluster.folder) + files_with(SECRET_KEY, airflow.home) == []


@pytest.fixture(scope="module")
def report(airflow: AirflowStandalone, locked: ObjectStore) -> str:
    """A run of `report`, which has ended well after it waited for its lock; its id."""

    def state() -> str | None:
        return next((task.state for task in airflow.api.tasks("report", run_id) if task.task_id == "lock"), None)

    with RWLock(locked, "report").write(purpose="a person reads it"):
        run_id = airflow.api.trigger("report")
        until(lambda: state() == "deferred", "the lock to be waited for", 300)
    assert ended(airflow, "report", run_id) == "success"
    assert [info for info in inspect(locked) if info.resource == "report" and info.state != "dead"] == []
    return run_id


def test_lock_of_a_run_is_held_over_its_tasks_and_released_at_the_end(airflow: AirflowStandalone, report: str) -> None:
    assert airflow.api.xcom("report", report, "look") == [["report", "W", "run", report]]
    assert {task.task_id: task.state for task in airflow.api.tasks("report", report)} == {
        "lock": "success",
        "look": "success",
        "unlock": "success",
    }


def test_lock_is_released_when_the_work_fails(airflow: AirflowStandalone, locked: ObjectStore) -> None:
    run_id = airflow.api.trigger("report", {"fail": True})
    assert ended(airflow, "report", run_id) == "failed"
    states = {task.task_id: task.state for task in airflow.api.tasks("report", run_id)}
    assert states == {"lock": "success", "look": "failed", "unlock": "success"}
    assert "RuntimeError: asked to fail" in airflow.api.task_log("report", run_id, "look")
    assert f"run {run_id}, task look[-1], try 1: failed" in why_failed(airflow)
    assert "RuntimeError: asked to fail" in why_failed(airflow)
    assert [info for info in inspect(locked) if info.state != "dead"] == []


def test_waiting_for_a_lock_is_deferred_until_it_is_free(airflow: AirflowStandalone, report: str) -> None:
    assert "a person reads it" in airflow.api.task_log("report", report, "lock")


def test_lock_of_a_block_is_renewed_by_a_trigger_while_the_block_runs(
    airflow: AirflowStandalone, locked: ObjectStore
) -> None:
    run_id = airflow.api.trigger("ledger")
    assert ended(airflow, "ledger", run_id) == "success"
    assert {task.task_id: task.state for task in airflow.api.tasks("ledger", run_id)} == {
        "acquire_ledger": "success",
        "keep_ledger": "success",
        "work": "success",
        "release_ledger": "success",
    }
    assert "the lock was given back" in airflow.api.task_log("ledger", run_id, "keep_ledger")
    assert [info for info in inspect(locked) if info.state != "dead"] == []


def test_mapped_work_is_done_under_locks_of_its_own(airflow: AirflowStandalone, locked: ObjectStore) -> None:
    run_id = airflow.api.trigger("mapped")
    # What comes last runs whether or not all of the work is done.
    assert ended(airflow, "mapped", run_id) == "success"
    states: dict[str, list[str | None]] = {}
    for task in airflow.api.tasks("mapped", run_id):
        states.setdefault(task.task_id, []).append(task.state)
    assert {name: sorted(map(str, each)) for name, each in states.items()} == {
        "load.acquire_one": ["success", "success"],
        "load.keep_one": ["success", "success"],
        "load.work": ["failed", "success"],
        "load.release_one": ["success", "success"],
        "alone": ["success", "success"],
        "got": ["success", "success"],
        "look": ["success"],
        "left": ["success"],
    }
    assert {"x", "y"} <= set(airflow.api.xcom("mapped", run_id, "look"))
    assert [info for info in inspect(locked) if info.state != "dead"] == []


def test_lock_of_a_run_that_is_ended_by_hand_is_given_back(
    airflow: AirflowStandalone, locked: ObjectStore, tmp_path: Path
) -> None:
    def states() -> dict[str, str | None]:
        return {task.task_id: task.state for task in airflow.api.tasks("ledger", run_id)}

    run_id = airflow.api.trigger("ledger", {"may_end": str(tmp_path / "never")})
    working = {"keep_ledger": "deferred", "work": "running"}
    until(lambda: working.items() <= states().items(), "the lock to be kept", 300)
    airflow.api.end_run("ledger", run_id)
    assert ended(airflow, "ledger", run_id) == "failed"
    assert states() == {
        "acquire_ledger": "success",
        "keep_ledger": "success",
        "work": "failed",
        "release_ledger": "success",
    }
    assert [info for info in inspect(locked) if info.state != "dead"] == []


def test_lock_of_a_run_whose_dag_is_paused_goes_and_its_work_is_not_done_without_it(
    airflow: AirflowStandalone, locked: ObjectStore, tmp_path: Path
) -> None:
    def states() -> dict[str, str | None]:
        return {task.task_id: task.state for task in airflow.api.tasks("interrupted", run_id)}

    run_id = airflow.api.trigger("interrupted", {"may_end": str(tmp_path / "go")})
    until(lambda: {"keep_lock": "deferred", "first": "running"}.items() <= states().items(), "the work to begin", 300)
    airflow.api.pause("interrupted")
    (tmp_path / "go").touch()
    # Its trigger has handed the lock back, and the scheduler starts nothing of a paused DAG.
    until(lambda: states()["keep_lock"] == "scheduled", "the run to be idle for long enough", 300)
    (info,) = (info for info in inspect(locked) if info.resource == "interrupted" and info.state == "held")
    path = Path(locked.url) / f"locks/interrupted/WRIT.{info.txn}"
    os.utime(path, (time.time() - 125,) * 2)  # of a lease and a grace of 60 s
    with RWLock(locked, "interrupted").write(wait=0):
        airflow.api.pause("interrupted", paused=False)
        assert ended(airflow, "interrupted", run_id) == "failed"
    found = states()
    assert {found.pop(task) for task in ("keep_lock", "second")} == {"failed"}
    assert set(found.values()) == {"success"}
    kept = airflow.api.task_log("interrupted", run_id, "keep_lock")
    assert "did not start the task that keeps the lock in time: its DAG was paused" in kept
    log = airflow.api.task_log("interrupted", run_id, "second")
    assert "So this task was not begun. Clear it to run it under a new lock" in log
    assert "at work without a lock" not in log


def test_reaper_asks_airflow_who_has_finished(airflow: AirflowStandalone, locked: ObjectStore, report: str) -> None:
    leases = {}
    for resource, run_id in {"of an ended run": report, "of a run nobody knows": "no such run"}.items():
        owner = Owner(scope="run", dag_id="report", run_id=run_id, task_id="lock", map_index=-1)
        name = resource.replace(" ", "-")
        leases[resource] = RWLock(locked, name, owner=owner).write(wait=0, renew=False)
        path = Path(locked.url) / f"locks/{name}/WRIT.{leases[resource].txn}"
        os.utime(path, (time.time() - 125,) * 2)  # of a lease of 120 s, with a grace of 60 s
    reaper = airflow.api.trigger("reaper")
    assert ended(airflow, "reaper", reaper) == "success"
    found = airflow.api.xcom("reaper", reaper, "reap")
    reasons = {each["txn"]: each["reason"] for each in found}
    left = leases["of a run nobody knows"]
    assert reasons[leases["of an ended run"].txn] == "its lease is over and its owner has finished"
    # On a machine so slow that its grace is over meanwhile, it goes for that.
    assert reasons.get(left.txn) in (None, "its lease and grace are over")
    left.release()


def test_backup_of_one_source_leaves_the_others_alone_and_says_what_is_missing(airflow: AirflowStandalone) -> None:
    airflow.api.wait_for_dag("backup_trio")
    run_id = airflow.api.trigger("backup_trio", {"source": "other"})
    assert ended(airflow, "backup_trio", run_id) == "failed"
    states = {task.task_id: task.state for task in airflow.api.tasks("backup_trio", run_id)}
    assert states == {"choose_sources": "success", "backup_crm": "skipped", "backup_other": "failed"}
    log = airflow.api.task_log("backup_trio", run_id, "backup_other")
    assert "JobRefused: there is no Airflow connection 'other': make it under Admin > Connections" in log


def test_nobody_gets_in_without_the_password(airflow: AirflowStandalone) -> None:
    stranger = type(airflow.api)(url=airflow.url, username=airflow.username, password="guess")
    with pytest.raises(AirflowApiError, match="401"):
        stranger.log_in()
    with pytest.raises(AirflowApiError, match="401"):
        stranger.dag_ids()
    stranger.close()


def test_stop_leaves_no_process_even_with_a_task_running_and_has_told_no_password(
    stage: Stage, airflow: AirflowStandalone, locked: ObjectStore
) -> None:
    with RWLock(locked, "report").write():
        airflow.api.trigger("report")
        supervisor = airflow.pid
        assert supervisor is not None
        below = tuple(psutil.Process(pid) for pid in descendants(supervisor))
        assert len(below) > 5
        began = time.monotonic()
        airflow.stop()
    assert timedelta(seconds=time.monotonic() - began) < timedelta(seconds=30)
    assert all_gone(below)
    assert not psutil.pid_exists(supervisor)
    assert airflow.pid is None
    assert processes_of(stage.folder) == []
    # Neither the demo's archive nor any log, XCom or rendered field of Airflow's database tells it.
    assert files_with(stage.story.server.password, stage.folder) == []
