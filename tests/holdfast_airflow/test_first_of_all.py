"""The weight of the tasks that keep and release a lock, as Airflow's scheduler works it out."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG
from airflow.serialization.serialized_objects import DagSerialization

from holdfast_airflow.operators import archive_lock


def test_a_lock_is_kept_and_given_back_before_any_other_task_gets_a_slot() -> None:
    defaults = {"priority_weight": 7, "weight_rule": "upstream"}
    with DAG("load", default_args=defaults) as dag, archive_lock(archive="shop", resource="report"):
        EmptyOperator(task_id="first") >> EmptyOperator(task_id="second")
    stored = DagSerialization.from_dict(DagSerialization.to_dict(dag))
    weights = {
        each.task_id: each.weight_rule.get_weight(cast("Any", SimpleNamespace(task=each))) for each in stored.tasks
    }
    assert weights["keep_lock"] == weights["release_lock"] == 2**31 - 1
    # The work before it is lifted by none of that.
    assert (weights["acquire_lock"], weights["first"], weights["second"]) == (7, 14, 21)
