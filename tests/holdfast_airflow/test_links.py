from __future__ import annotations

from typing import Any, cast

import pytest

from holdfast_airflow.links import ArchiveLink, JobLink
from holdfast_airflow.operators import BackupOperator, ReapLocks, RestoreOperator
from holdfast_airflow.page.address import page_address

KEY = cast("Any", None)


def test_a_job_links_to_its_archive_and_to_the_record_of_its_run() -> None:
    operator = BackupOperator(task_id="backup", archive="shop", source="shop_db")
    assert [link.name for link in operator.operator_extra_links] == ["Archive", "Job"]
    assert ArchiveLink().get_link(operator, ti_key=KEY) == "/holdfast/?archive=shop"
    assert JobLink().get_link(operator, ti_key=KEY) == ""
    operator._run_name = "backup-shop_db.20260301T120000Z.abc"
    assert JobLink().get_link(operator, ti_key=KEY) == (
        "/holdfast/?archive=shop&run=backup-shop_db.20260301T120000Z.abc"
    )


def test_a_name_cannot_change_the_link() -> None:
    operator = RestoreOperator(task_id="restore", archive="x&run=y#z", target_conn_id="target")
    assert ArchiveLink().get_link(operator, ti_key=KEY) == "/holdfast/?archive=x%26run%3Dy%23z"
    assert page_address(dag="{DAG_ID}") == "/holdfast/?dag={DAG_ID}"  # which Airflow fills in


def test_behind_a_proxy_links_have_airflows_own_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://tools.example/airflow/")
    operator = ReapLocks(task_id="reap", archive="shop")
    assert [link.name for link in operator.operator_extra_links] == ["Archive"]
    assert ArchiveLink().get_link(operator, ti_key=KEY) == "/airflow/holdfast/?archive=shop"
