"""What looks after an archive and its replicas in a running Airflow, and what it says where that fails."""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from demo.airflow_api import AirflowApiError
from holdfast.archive import Archive
from holdfast.archive.history.coverage import covered_ranges
from holdfast.archive.maintenance.verify import verify
from holdfast.postgresql.connection.session import connect
from holdfast.replication.log.replicas import mark_lost, replica
from locking import RWLock, inspect
from tests.support.airflow.stage import LIMIT_S, REPLICAS, Stage
from tests.support.jobs.command import run, until

pytestmark = [pytest.mark.service, pytest.mark.together]


def test_nobody_gets_in_without_the_password(stage: Stage) -> None:
    api = stage.airflow.api
    stranger = type(api)(url=stage.airflow.url, username=stage.airflow.username, password="guess")
    with pytest.raises(AirflowApiError, match="401"):
        stranger.log_in()
    with pytest.raises(AirflowApiError, match="401"):
        stranger.dag_ids()
    stranger.close()


@pytest.mark.beside
def test_an_archive_is_looked_after_by_its_dags(stage: Stage) -> None:
    store = stage.books
    before = covered_ranges(Archive.open(store).state, "shop")
    assert stage.passes_on("migration_books", "migrate")["format"] == 2
    assert stage.passes_on("truncation_books", "truncate", keep=["last=1"], dry_run=True)["dry_run"]
    assert covered_ranges(Archive.open(store).state, "shop") == before

    compacted = stage.passes_on("compaction_books", "compact", consolidate=True)
    assert compacted["blocks_removed"] >= 4
    assert (compacted["blocks_added"], compacted["consolidated"]) == (2, ["shop"])

    stage.passes_on("truncation_books", "truncate", keep=["last=1"])  # and the vacuum behind it
    assert stage.passes_on("vacuum_books", "vacuum", dry_run=True)["files"] == 0

    verified = stage.passes_on("archive_verification_books", "verify", deep=True)
    assert verified["files"] > 0
    drilled = stage.passes_on("restore_drill_books", "drill_shop", at="latest")
    assert drilled["equal"]
    assert [assertion["holds"] for assertion in drilled["assertions"]] == [True]

    assert verify(Archive.open(store), deep=True).damage == ()
    assert len(covered_ranges(Archive.open(store).state, "shop")) == 1
    assert [info for info in inspect(store) if info.state not in ("dead", "expired")] == []


@pytest.mark.beside
def test_replicas_are_kept_equal_by_their_dags_and_the_cluster_brings_back_what_it_has_backed_up(stage: Stage) -> None:
    trio = stage.trio
    backup = waits_without_a_worker(stage)
    assert (backup["rows"], backup["quorum"]["size"], backup["quorum"]["entry"]) == (50, 2, 1)
    assert {"near"} < set(backup["quorum"]["replicas"]) <= {*REPLICAS}
    # The backup has begun a sync, too.
    assert stage.passes_on("replica_sync_trio", "sync_far")["index"] == 2
    assert trio.state("far").blocks.keys() == trio.state("near").blocks.keys()
    assert trio.is_whole("far")

    for path in (stage.s3.folder / "far" / "trio" / "data").rglob("*.parquet"):
        path.unlink()
    trio.coordination.run(lambda c: mark_lost(c, trio.archive, "far", "its disk was changed"))
    # A run that the schedule has begun in the same moment may have done it: then there is nothing left.
    recovered = stage.passes_on("lost_replica_recovery_trio", "recover")["recovered"]
    assert [(each["replica"], each["index"]) for each in recovered] in ([("far", 2)], [])
    assert trio.is_whole("far")
    assert not trio.coordination.run(lambda c: replica(c, trio.archive, "far")).is_lost

    trimmed = stage.passes_on("replica_log_trimming_trio", "trim", min_keep=0, max_keep=10)
    assert (trimmed["log_start"], trimmed["lost"]) == (3, [])

    restored = stage.passes_on("restore_trio", "restore", source="crm", target_connection="copy", dry_run=False)
    assert restored["rows"] == 50
    with connect(stage.empty["copy"]) as session:
        assert session.execute("select sum(id) from public.customers").fetchone() == (1275,)
    assert stage.cluster.applications >= 1, "that of the backup: so little is restored without Spark"


def waits_without_a_worker(stage: Stage) -> dict[str, Any]:
    """Make a backup while too many replicas are busy, until they are not; return what its task passed on."""
    dag, task = "backup_trio", "backup_crm"
    with ExitStack() as busy:
        for name in REPLICAS[1:]:
            busy.enter_context(RWLock(stage.trio.place(name), "replica").write(purpose="it is busy"))
        run_id = stage.begin(dag, source="crm")
        deadline = time.monotonic() + LIMIT_S
        while (state := stage.states(dag, run_id).get(task)) != "deferred":
            assert time.monotonic() < deadline, state
            assert state not in ("failed", "up_for_retry")
            time.sleep(0.5)
    stage.passes_on("replica_sync_trio", "sync_far")
    assert stage.end(dag, run_id) == "success"
    value = stage.airflow.api.xcom(dag, run_id, task)
    assert isinstance(value, dict)
    return value


@pytest.mark.beside
def test_a_migration_that_fails_can_be_gone_back_before(stage: Stage) -> None:
    dag = "migrate_accounts"
    run_id = stage.begin(dag, fail=True)
    assert stage.end(dag, run_id) == "failed"
    assert {task.removeprefix("protected."): state for task, state in stage.states(dag, run_id).items()} == {
        "backup_before": "success",
        "mark_before": "success",
        "migrate": "failed",
        "backup_after": "success",
        "mark_after": "success",
        "backup_mark_after": "success",
        "outcome": "upstream_failed",
    }
    archive = str(stage.folder.with_name("accounts"))
    target = stage.empty["migrated"]
    for mark, n in {"before 4.2": 1, "after 4.2": 100}.items():
        words = ("--to", target.url, "--at", mark, "--map", f"public=s{n}", "--json")
        restored = run("restore", archive, *words, address=target)
        assert (restored.code, restored.value["stale"], restored.value["schema_note"]) == (0, [], ""), restored.err
        with connect(target) as session:
            assert session.execute(f"select n from s{n}.accounts where id = 1".encode()).fetchone() == (n,)


def test_who_is_named_in_the_configuration_is_told_of_a_failure_and_of_a_missed_deadline(stage: Stage) -> None:
    dag = "restore_drill_books"
    run_id = stage.begin(dag, at="1999-01-01T00:00:00Z")
    assert stage.end(dag, run_id) == "failed"
    alerts = Path(stage.books.url).with_name("alerts")
    lines = alerts.read_text().splitlines()
    (failure,) = (line for line in lines if "has failed (exit code" in line)
    assert failure.startswith(f"{dag}: ")
    assert "1999" in alerts.read_text()
    assert "Runbook: docs/runbooks/drill-failed.md" in lines
    assert any(line.startswith("Archive: ") and line.endswith("/holdfast/?archive=books") for line in lines), lines
    assert stage.end(dag, stage.begin(dag, at="1998-01-01T00:00:00Z")) == "failed"
    assert sum("has failed (exit code" in line for line in alerts.read_text().splitlines()) == 1, "one cause"
    late = f"{dag}: run {run_id} of {dag} is not done 0s after it was queued"
    until(lambda: late in alerts.read_text().splitlines(), "the alert of a missed deadline", LIMIT_S)


def test_backup_of_one_source_leaves_the_others_alone_and_says_what_is_missing(stage: Stage) -> None:
    dag = "backup_trio"
    run_id = stage.begin(dag, source="other")
    assert stage.end(dag, run_id) == "failed"
    assert stage.states(dag, run_id) == {
        "choose_sources": "success",
        "backup_crm": "skipped",
        "backup_other": "failed",
    }
    log = stage.airflow.api.task_log(dag, run_id, "backup_other")
    assert "JobRefused: there is no Airflow connection 'other': make it under Admin > Connections" in log


def test_every_dag_file_can_be_read(stage: Stage) -> None:
    assert stage.airflow.api.import_errors() == {}
