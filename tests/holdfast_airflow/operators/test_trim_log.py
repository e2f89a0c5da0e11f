"""Trimming of the log of replicas as a task, and what operators of replicas refuse."""

from __future__ import annotations

import pytest
from sqlalchemy import Connection

from holdfast.replication.log import schema
from holdfast.replication.log.store import CoordinationStore
from holdfast_airflow.exceptions import JobFailed, JobRefused
from holdfast_airflow.operators import SyncReplica, TrimLog
from tests.support.airflow.operators import execute
from tests.support.replicas.replicated import Replicas

pytestmark = pytest.mark.slow


def test_a_log_is_trimmed_by_what_a_form_says(shop: Replicas) -> None:
    for _ in range(3):
        shop.back_up("near")
    assert execute(TrimLog(task_id="trim", archive="shop", min_keep="0", max_keep="5"))["waits_for"] == ["far"]

    def away(c: Connection) -> None:
        c.execute(schema.replicas.update().where(schema.replicas.c.name == "far").values(active_until=0.0))

    shop.coordination.run(away)
    done = execute(TrimLog(task_id="trim", archive="shop", min_keep="1", max_keep="2"))
    assert done == {"log_start": 3, "removed": 2, "lost": ["far"], "waits_for": [], "not_asked": []}


def test_what_cannot_be_meant_is_refused(shop: Replicas, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(JobRefused, match="archive alone has no 'replicas'"):
        execute(TrimLog(task_id="trim", archive="alone"))
    with pytest.raises(JobRefused, match="there is no replica off of this archive; it has: far, near"):
        execute(SyncReplica(task_id="sync", archive="shop", replica="off"))
    other = f"sqlite:///{shop.folder}/other.db"
    CoordinationStore.open(other).close()
    monkeypatch.setenv("HOLDFAST_STORE", other)
    with pytest.raises(JobRefused, match=r"knows no replica at .*'holdfast replica add' makes the first one"):
        execute(TrimLog(task_id="trim", archive="shop"))
    monkeypatch.setenv("HOLDFAST_STORE", "postgresql://nobody@127.0.0.1:1/none")
    with pytest.raises(JobFailed, match="cannot be used"):
        execute(TrimLog(task_id="trim", archive="shop"))
