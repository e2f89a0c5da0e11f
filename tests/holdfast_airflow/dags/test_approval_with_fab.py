"""Approval where the ids of Airflow's users are not their names: with FAB's auth manager, in an Airflow of its own."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from demo.airflow import AirflowStandalone
from tests.support.jobs.command import until

pytestmark = [pytest.mark.service, pytest.mark.exhaustive]

ROOT = Path(__file__).parents[3]

DAG_FILE = '''
"""Work that olga has to approve."""
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG
from holdfast.config.archives_model import ApprovalConfig
from holdfast_airflow.approval import wait_for_approval

with DAG("restore_shop", schedule=None):
    work = EmptyOperator(task_id="restore")
    wait_for_approval(work, "restore", ApprovalConfig(operations=["restore"], users=["olga"]), "Restore?")
'''


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AirflowStandalone]:
    folder = tmp_path_factory.mktemp("fab")
    (folder / "dags").mkdir()
    (folder / "dags" / "restore.py").write_text(DAG_FILE)
    airflow = AirflowStandalone(
        home=folder / "airflow",
        dags=folder / "dags",
        plugins=ROOT / "plugins",
        command=[sys.executable, "-P", str(ROOT / "tests/support/airflow/start_with_fab.py")],
        env={
            "PYTHONPATH": str(ROOT),
            "AIRFLOW__CORE__AUTH_MANAGER": "airflow.providers.fab.auth_manager.fab_auth_manager.FabAuthManager",
        },
    )
    with airflow:
        airflow.api.wait_for_dag("restore_shop")
        yield airflow


def answer(airflow: AirflowStandalone, run: str, user: str, option: str) -> httpx.Response:
    """Wait until a run asks, and answer as a user."""
    path = f"/api/v2/dags/restore_shop/dagRuns/{run}/taskInstances/approve"
    # An answer before the scheduler has seen the task's process gone fails it; no person is so quick.
    seen = f"TaskInstance Finished: dag_id=restore_shop, task_id=approve, run_id={run},"
    until(lambda: seen in airflow.log_file.read_text(errors="replace"), "the scheduler to see the question", 300)
    with httpx.Client(base_url=airflow.url, timeout=120, trust_env=False) as client:
        token = client.post("/auth/token", json={"username": user, "password": airflow.password}).json()
        client.headers["Authorization"] = f"Bearer {token['access_token']}"
        return client.patch(f"{path}/-1/hitlDetails", json={"chosen_options": [option]})


@pytest.mark.parametrize(("user", "end"), [("olga", "success"), ("demo", "failed")])
def test_the_named_user_may_approve_and_no_other(airflow: AirflowStandalone, user: str, end: str) -> None:
    run = airflow.api.trigger("restore_shop", {})
    assert answer(airflow, run, user, "Approve").status_code == 200
    assert airflow.api.wait_for_run("restore_shop", run, timeout=300, poll=0.5) == end
    states = {each.task_id: each.state for each in airflow.api.tasks("restore_shop", run)}
    assert states["restore"] == ("success" if end == "success" else "upstream_failed")
