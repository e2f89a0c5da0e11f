"""Look after an archive, and report a failure: with what to do, the runbook and the links."""

from __future__ import annotations

from airflow.sdk import DAG

from holdfast_airflow.notifications import HoldfastNotifier
from holdfast_airflow.operators import CompactOperator, TruncateOperator, VacuumOperator, VerifyOperator

with DAG("maintain", schedule="@daily", catchup=False, default_args={"on_failure_callback": HoldfastNotifier()}):
    (
        CompactOperator(task_id="compact", archive="shop")
        >> TruncateOperator(task_id="truncate", archive="shop", source="warehouse", keep=["within=7d", "daily=14"])
        >> VacuumOperator(task_id="vacuum", archive="shop")
        >> VerifyOperator(task_id="verify", archive="shop")
    )
