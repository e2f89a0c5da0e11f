"""The operators that keep replicas equal: what they do, what they return, and how they fail."""

from __future__ import annotations

import inspect
import json
import shutil
from datetime import timedelta
from typing import Any

import pytest
from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import TaskDeferred
from sqlalchemy import Connection

from holdfast.archive import Archive
from holdfast.archive.maintenance.verify import verify
from holdfast.common.errors import DamagedError
from holdfast.replication.log import schema
from holdfast.replication.log.replicas import mark_lost, remove, replica
from holdfast.replication.log.store import CoordinationStore
from holdfast_airflow.exceptions import JobFailed, JobRefused
from holdfast_airflow.operators import RecoverReplicas, SyncReplica, TrimLog, VerifyOperator
from locking import RWLock
from locking import inspect as inspect_locks
from tests.support.operators import FakeSpark
from tests.support.replicated import Replicas

pytestmark = pytest.mark.slow


def run(operator: BaseOperator, context: dict[str, Any] | None = None) -> Any:
    return inspect.unwrap(type(operator).execute)(operator, context or {})


def test_a_replica_is_brought_to_the_head_of_the_log(shop: Replicas) -> None:
    shop.back_up("near")
    done = run(SyncReplica(task_id="sync", archive="shop", replica="far"))
    assert (done["replica"], done["index"], done["entries"], done["files"]) == ("far", 1, 1, 2)
    assert shop.is_whole("far")
    assert run(SyncReplica(task_id="sync", archive="shop", replica="far"))["entries"] == 0


def test_a_sync_gives_up_what_nobody_has_had_for_long(shop: Replicas) -> None:
    shop.back_up("near")
    shutil.rmtree(shop.folder / "near")
    shop.coordination.run(lambda c: remove(c, shop.archive, "near", force=True))
    with pytest.raises(JobRefused, match=r"given up by itself by a sync in 24 h"):
        run(SyncReplica(task_id="sync", archive="shop", replica="far"))
    done = run(SyncReplica(task_id="sync", archive="shop", replica="far", gap_after=timedelta()))
    assert (done["index"], done["given_up"]) == (2, [1])


SYNCED = {"replica": "far", "index": 1, "entries": 1, "files": 2, "bytes": 10, "given_up": []}


def test_the_copies_of_a_sync_are_spread_over_spark(
    shop: Replicas, spark: FakeSpark, context: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    spark.play("tell")
    monkeypatch.setenv("FAKE_RESULT", json.dumps(SYNCED))
    assert run(SyncReplica(task_id="sync", archive="shop", replica="far", spark="True"), context) == SYNCED
    seen = spark.seen()
    assert seen["locks"] == ["format R save", "replica W save"]
    (script,) = (word for word in seen["argv"] if word.endswith("sparkjobs/sync.py"))
    arguments = seen["argv"][seen["argv"].index(script) + 1 :]
    assert (arguments[:3], len(arguments)) == (["--archive", shop.place("far").url, "--run"], 4)
    assert seen["env"]["HOLDFAST_STORE"] == shop.coordination.url
    assert not any("coordination.db" in word for word in seen["argv"])
    assert inspect_locks(shop.place("far")) == []


def test_a_sync_by_spark_waits_for_its_locks_without_a_worker(
    shop: Replicas, spark: FakeSpark, context: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    operator = SyncReplica(task_id="sync", archive="shop", replica="far", spark=True)
    with RWLock(shop.place("far"), "replica").write(purpose="another sync"), pytest.raises(TaskDeferred) as deferred:
        run(operator, context)
    assert deferred.value.trigger.operation == "sync"
    spark.play("tell")
    monkeypatch.setenv("FAKE_RESULT", json.dumps(SYNCED))
    assert deferred.value.kwargs is not None
    done = operator.execute_when_free(context, {"state": "free"}, **deferred.value.kwargs)  # type: ignore[arg-type]
    assert done == SYNCED


def test_a_sync_by_spark_fails_and_gives_up_as_one_without_it_does(
    shop: Replicas, spark: FakeSpark, context: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.back_up("near")
    shutil.rmtree(shop.folder / "near")
    shop.coordination.run(lambda c: remove(c, shop.archive, "near", force=True))
    spark.play("tell")
    missing = {"missing": {"entry": 1, "why": "no replica could give data/x"}}
    monkeypatch.setenv("FAKE_RESULT", json.dumps(missing))
    with pytest.raises(JobRefused, match=r"give data/x\. .* given up by itself by a sync in 24 h"):
        run(SyncReplica(task_id="sync", archive="shop", replica="far", spark=True), context)
    given_up = SyncReplica(task_id="sync", archive="shop", replica="far", spark=True, gap_after=timedelta())
    with pytest.raises(JobRefused, match="no replica could give data/x"):  # the stand-in says the same once more
        run(given_up, context)
    done = run(SyncReplica(task_id="sync", archive="shop", replica="far"))
    assert (done["index"], done["given_up"]) == (2, [])


def test_a_log_is_trimmed_by_what_a_form_says(shop: Replicas) -> None:
    for _ in range(3):
        shop.back_up("near")
    assert run(TrimLog(task_id="trim", archive="shop", min_keep="0", max_keep="5"))["waits_for"] == ["far"]

    def away(c: Connection) -> None:
        c.execute(schema.replicas.update().where(schema.replicas.c.name == "far").values(active_until=0.0))

    shop.coordination.run(away)
    done = run(TrimLog(task_id="trim", archive="shop", min_keep="1", max_keep="2"))
    assert done == {"log_start": 3, "removed": 2, "lost": ["far"], "waits_for": []}


def test_lost_replicas_are_made_anew_and_others_left_alone(shop: Replicas) -> None:
    assert run(RecoverReplicas(task_id="recover", archive="shop")) == {"recovered": []}
    shop.coordination.run(lambda c: mark_lost(c, shop.archive, "far", "rot"))
    (done,) = run(RecoverReplicas(task_id="recover", archive="shop", deep="False"))["recovered"]
    assert (done["replica"], done["from"], done["files"], done["kept"]) == ("far", "near", 0, 2)
    assert not shop.coordination.run(lambda c: replica(c, shop.archive, "far")).is_lost


def test_a_recovery_that_fails_fails_the_task_once_all_were_tried(shop: Replicas) -> None:
    shop.coordination.run(lambda c: mark_lost(c, shop.archive, "far", "rot"))
    for path in (shop.folder / "near" / "data").rglob("*.parquet"):
        path.unlink()
    for path in (shop.folder / "far" / "data").rglob("*.parquet"):
        path.unlink()
    with pytest.raises(JobRefused, match="is missing"):
        run(RecoverReplicas(task_id="recover", archive="shop"))
    assert shop.coordination.run(lambda c: replica(c, shop.archive, "far")).is_lost


def test_a_lost_replica_fails_its_sync_for_good(shop: Replicas) -> None:
    shop.coordination.run(lambda c: mark_lost(c, shop.archive, "far", "rot"))
    with pytest.raises(JobRefused, match="holdfast replica recover far"):
        run(SyncReplica(task_id="sync", archive="shop", replica="far"))


def test_a_place_that_is_gone_is_named_and_nothing_is_made_there(shop: Replicas) -> None:
    (shop.folder / "far").rename(shop.folder / "away")
    with pytest.raises(JobRefused, match=r"there is no archive at .*far, where replica far is to be"):
        run(SyncReplica(task_id="sync", archive="shop", replica="far"))
    assert not (shop.folder / "far").exists()


def test_what_cannot_be_meant_is_refused(shop: Replicas, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(JobRefused, match="archive alone has no 'replicas'"):
        run(TrimLog(task_id="trim", archive="alone"))
    with pytest.raises(JobRefused, match="there is no replica off of this archive; it has: far, near"):
        run(SyncReplica(task_id="sync", archive="shop", replica="off"))
    other = f"sqlite:///{shop.folder}/other.db"
    CoordinationStore.open(other).close()
    monkeypatch.setenv("HOLDFAST_STORE", other)
    with pytest.raises(JobRefused, match=r"knows no replica at .*'holdfast replica add' makes the first one"):
        run(TrimLog(task_id="trim", archive="shop"))
    monkeypatch.setenv("HOLDFAST_STORE", "postgresql://nobody@127.0.0.1:1/none")
    with pytest.raises(JobFailed, match="cannot be used"):
        run(TrimLog(task_id="trim", archive="shop"))


def found(*damage: str, replaceable: bool = True) -> dict[str, Any]:
    """What a verification has found."""
    return {"damage": list(damage), "costs": [{"file": each, "replaceable": replaceable} for each in damage]}


def test_a_replica_is_kept_where_no_other_one_could_give_what_is_damaged(shop: Replicas) -> None:
    verification = VerifyOperator(task_id="verify", archive="shop", replica="far")
    archive = Archive.open(shop.place("far"))
    result = verify(archive, deep=True).describe()  # the files of made-up backups are no Parquet, at every place
    assert result["damage"]
    with pytest.raises(DamagedError, match="has the bytes that were written, and cannot be read as Parquet"):
        verification.summarise(archive.store, "run", result)
    with pytest.raises(DamagedError, match="commits/5 is another"):
        verification.summarise(archive.store, "run", found("commits/5 is another", replaceable=False))
    assert not shop.coordination.run(lambda c: replica(c, shop.archive, "far")).is_lost


def test_damage_is_told_also_where_the_replica_cannot_be_opened(shop: Replicas) -> None:
    verification = VerifyOperator(task_id="verify", archive="shop", replica="far")
    newest = max((shop.folder / "far" / "commits").iterdir())
    newest.chmod(0o644)
    newest.write_bytes(b"{")
    with pytest.raises(DamagedError, match="damaged or missing: a is missing"):
        verification.summarise(shop.place("far"), "run", found("a is missing"))


def test_a_damaged_replica_is_given_up_so_that_it_is_made_whole(shop: Replicas) -> None:
    file = next((shop.folder / "far" / "data").rglob("*.parquet"))
    file.unlink()
    verification = VerifyOperator(task_id="verify", archive="shop", replica="far")
    with pytest.raises(DamagedError, match="damaged or missing: a is missing"):
        verification.summarise(shop.place("far"), "run", found("a is missing"))
    row = shop.coordination.run(lambda c: replica(c, shop.archive, "far"))
    assert (row.is_lost, row.lost_reason) == (True, "verification has found 1 files that are damaged or missing")
    with pytest.raises(DamagedError, match="b is missing"):  # the last one is kept: there is nobody to fetch from
        verification.summarise(shop.place("near"), "run", found("b is missing"))
    assert not shop.coordination.run(lambda c: replica(c, shop.archive, "near")).is_lost
    (made,) = run(RecoverReplicas(task_id="recover", archive="shop"))["recovered"]
    assert (made["replica"], made["files"]) == ("far", 1)
    assert shop.is_whole("far")
