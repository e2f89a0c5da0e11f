"""Which runbook is for a failure."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast_airflow import operators, runbooks
from holdfast_airflow.runbooks import FOLDER, operation_of, operation_of_task, runbook_for

ROOT = Path(__file__).parents[2]


def test_every_runbook_is_there() -> None:
    named = {*runbooks._BY_OPERATION.values(), "a-lock-is-held"}
    assert [name for name in named if not (ROOT / FOLDER / f"{name}.md").exists()] == []


def test_every_named_operator_is_there() -> None:
    assert runbooks._BY_OPERATOR.keys() <= {getattr(operators, name).__name__ for name in operators.__all__}


def test_an_operator_that_extends_one_of_ours_has_its_runbook() -> None:
    class Nightly(operators.BackupOperator):
        """A backup of somebody's own."""

    assert operation_of_task(Nightly(task_id="nightly", archive="shop")) == "backup"
    assert operation_of_task(operators.SyncReplica(task_id="sync", archive="shop", replica="far")) == "replica_sync"
    assert operation_of_task(object()) is None


@pytest.mark.parametrize(
    ("operation", "exit_code", "runbook"),
    [
        ("backup", 3, "a-lock-is-held"),
        ("restore_drill", None, "drill-failed"),
        ("other", 1, None),
    ],
)
def test_the_exit_code_of_a_lock_goes_before_the_operation(
    operation: str, exit_code: int | None, runbook: str | None
) -> None:
    assert runbook_for(operation, exit_code) == runbook


@pytest.mark.parametrize(
    ("dag_id", "archive", "operation"),
    [
        ("backup_shop", "shop", "backup"),
        ("backup_shop", None, "backup"),
        ("restore_drill_shop", None, "restore_drill"),
        ("restore_drill_x", "drill_x", "restore"),
        ("backup_shop", "s3://backups/shop", "backup"),
        ("nightly", None, "nightly"),
    ],
)
def test_the_operation_is_known_by_the_id_of_the_dag(dag_id: str, archive: str | None, operation: str) -> None:
    assert operation_of(dag_id, archive) == operation
