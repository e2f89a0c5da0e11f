from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG

from holdfast.config.archives_model import ApprovalConfig
from holdfast_airflow.approval import APPROVE, wait_for_approval
from holdfast_airflow.exceptions import JobRefused


def dag_with(approval: ApprovalConfig) -> DAG:
    with DAG("restore_shop", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC)) as dag:
        work = EmptyOperator(task_id="restore")
        wait_for_approval(work, "restore", approval, "Restore {{ params.at }}?")
    return dag


@pytest.mark.parametrize("approval", [ApprovalConfig(), ApprovalConfig(operations=["truncation"])])
def test_without_a_word_in_archives_yaml_nothing_waits(approval: ApprovalConfig) -> None:
    assert dag_with(approval).task_ids == ["restore"]


def test_the_work_waits_for_a_task_that_asks_without_another_try() -> None:
    dag = dag_with(ApprovalConfig(operations=["restore"], within="4h", users=["olga"]))
    asks = cast("Any", dag.get_task(APPROVE))
    assert (asks.retries, asks.response_timeout.total_seconds()) == (0, 4 * 3600)
    assert asks.assigned_users == [{"id": "olga", "name": "olga"}]
    assert asks.downstream_task_ids == {"restore"}
    assert dag.get_task("restore").upstream_task_ids == {APPROVE, "choose_approval"}


@pytest.mark.parametrize(("params", "next_task"), [({"dry_run": True}, "restore"), ({"dry_run": False}, APPROVE)])
def test_a_dry_run_asks_nobody(params: dict[str, Any], next_task: str) -> None:
    dag = dag_with(ApprovalConfig(operations=["restore"]))
    choose = cast("Any", dag.get_task("choose_approval"))
    assert choose.python_callable("restore", params=params) == next_task


def test_where_ids_are_not_names_the_task_looks_at_who_approved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(
        "AIRFLOW__CORE__AUTH_MANAGER", "airflow.providers.fab.auth_manager.fab_auth_manager.FabAuthManager"
    )
    asks = cast("Any", dag_with(ApprovalConfig(operations=["restore"], users=["olga", "7"])).get_task(APPROVE))
    assert not asks.assigned_users
    assert "Only olga or 7 may approve." in asks.body
    check, context = asks._post_execute_hook, {"ti": SimpleNamespace(task_id=APPROVE)}
    for person in ({"id": "2", "name": "olga"}, {"id": "7", "name": "uma"}):
        check(context, {"responded_by_user": person})
    with pytest.raises(JobRefused, match="nothing was done: bob approved, and only olga or 7 may"):
        check(context, {"responded_by_user": {"id": "1", "name": "bob"}})
    assert cast("Any", dag_with(ApprovalConfig(operations=["restore"])).get_task(APPROVE))._post_execute_hook is None
