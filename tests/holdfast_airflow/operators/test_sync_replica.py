"""Sync of a replica as a task, by itself or by Spark."""

from __future__ import annotations

import json
import shutil
from datetime import timedelta
from typing import Any

import pytest
from airflow.sdk.exceptions import TaskDeferred

from holdfast.replication.log.replicas import mark_lost
from holdfast_airflow.exceptions import JobFailed, JobRefused
from holdfast_airflow.operators import SyncReplica
from locking import RWLock
from locking import inspect as inspect_locks
from tests.support.airflow.metrics import SentMetrics, sent_to
from tests.support.airflow.operators import FakeSpark, execute
from tests.support.replicas.rebuilt import copied
from tests.support.replicas.replicated import Replicas, remove

pytestmark = pytest.mark.slow


def test_a_replica_is_brought_to_the_head_of_the_log(shop: Replicas) -> None:
    shop.back_up("near")
    done = execute(SyncReplica(task_id="sync", archive="shop", replica="far"))
    assert (done["replica"], done["index"], done["entries"], done["files"]) == ("far", 1, 1, 2)
    assert shop.is_whole("far")
    assert execute(SyncReplica(task_id="sync", archive="shop", replica="far"))["entries"] == 0


def test_a_replica_that_only_archives_yaml_knows_is_asked_before_a_sync(shop: Replicas) -> None:
    with_far = copied(shop)
    shop.coordination.run(lambda c: remove(c, shop.archive, "far", force=True))
    without_far = copied(shop)
    with_far()
    shop.back_up("far")
    without_far()
    with pytest.raises(JobFailed, match=r"far has executed entry 1 .*, which the coordination store does not know"):
        execute(SyncReplica(task_id="sync", archive="shop", replica="near"))


def test_a_sync_tells_how_far_all_replicas_are_behind_also_where_it_fails(shop: Replicas) -> None:
    shop.back_up("near")
    sent = SentMetrics()
    with sent_to(lambda: sent):
        shop.coordination.run(lambda c: mark_lost(c, shop.archive, "far", "it was away"))
        with pytest.raises(JobRefused, match="lost"):
            execute(SyncReplica(task_id="sync", archive="shop", replica="far"))
        behind = {tags["replica"]: value for tags, value in sent.of("holdfast.replica.entries_behind")}
        assert behind == {"near": 0, "far": 1}
        sent.values.clear()
        execute(SyncReplica(task_id="sync", archive="shop", replica="near"))
    about = {"archive": "shop", "operation": "sync", "source": "all"}
    assert sent.of("holdfast.jobs") == [({**about, "exit": "ok"}, 1)]
    assert sent.of("holdfast.job.bytes") == [(about, 0)]


def test_a_sync_gives_up_what_nobody_has_had_for_long(shop: Replicas) -> None:
    shop.back_up("near")
    shutil.rmtree(shop.folder / "near")
    shop.coordination.run(lambda c: remove(c, shop.archive, "near", force=True))
    with pytest.raises(JobRefused, match=r"given up by itself by a sync in 24 h"):
        execute(SyncReplica(task_id="sync", archive="shop", replica="far"))
    done = execute(SyncReplica(task_id="sync", archive="shop", replica="far", gap_after=timedelta()))
    assert (done["index"], done["given_up"]) == (2, [1])


SYNCED = {"replica": "far", "index": 1, "entries": 1, "files": 2, "bytes": 10, "given_up": [], "not_asked": []}


def test_the_copies_of_a_sync_are_spread_over_spark(
    shop: Replicas, spark: FakeSpark, context: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    spark.play("tell")
    monkeypatch.setenv("FAKE_RESULT", json.dumps(SYNCED))
    assert execute(SyncReplica(task_id="sync", archive="shop", replica="far", spark="True"), context) == SYNCED
    seen = spark.seen()
    assert seen["locks"] == ["format R save", "replica W save"]
    (script,) = (word for word in seen["argv"] if word.endswith("sparkjobs/sync.py"))
    arguments = seen["argv"][seen["argv"].index(script) + 1 :]
    assert (arguments[:3], len(arguments)) == (["--archive", shop.place("far").url, "--run"], 4)
    assert seen["env"]["HOLDFAST_STORE"] == shop.coordination.url
    assert json.loads(seen["env"]["HOLDFAST_REPLICAS"]) == {name: shop.place(name).url for name in ("near", "far")}
    assert not any("coordination.db" in word for word in seen["argv"])
    assert inspect_locks(shop.place("far")) == []


def test_a_sync_by_spark_waits_for_its_locks_without_a_worker(
    shop: Replicas, spark: FakeSpark, context: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    operator = SyncReplica(task_id="sync", archive="shop", replica="far", spark=True)
    with RWLock(shop.place("far"), "replica").write(purpose="another sync"), pytest.raises(TaskDeferred) as deferred:
        execute(operator, context)
    assert deferred.value.trigger.operation == "sync"
    spark.play("tell")
    monkeypatch.setenv("FAKE_RESULT", json.dumps(SYNCED))
    assert deferred.value.kwargs is not None
    done = operator.execute_when_free(context, {"state": "free"}, **deferred.value.kwargs)  # type: ignore[arg-type]
    assert done == SYNCED
