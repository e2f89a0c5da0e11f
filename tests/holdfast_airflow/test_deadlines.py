"""Deadlines of runs, and who is told of those that are missed."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from airflow.serialization.serialized_objects import DagSerialization

from holdfast.config.archives_model import ArchiveConfig
from holdfast_airflow.archives import archive_dag
from holdfast_airflow.deadlines import tell_missed

NOTIFIER = "tests.support.airflow.alerts.FileNotifier"
TEXT = "{{ dag.dag_id }} {{ ti.task_id }} {{ ti.state }} {{ dag_run.run_id }}: {{ exception }}"

ARCHIVE = ArchiveConfig.model_validate(
    {
        "url": "/a",
        "deadline": {"changes": "10 min"},
        "alerts": [{"notifier": NOTIFIER, "arguments": {"path": "/alerts", "text": "hunter2"}}],
    }
)

MISSED = {
    "dag_run": {"dag_id": "changes_shop", "dag_run_id": "scheduled__1", "state": "running"},
    "deadline": {"id": "1"},
}


def test_what_airflow_stores_names_the_archive_and_no_argument_of_a_notifier() -> None:
    stored = str(DagSerialization.to_dict(archive_dag("changes", "shop", ARCHIVE, doc="", schedule_key="changes")))
    assert "holdfast_airflow.deadlines.tell_missed" in stored
    assert "hunter2" not in stored


def configured(path: Path, *texts: str) -> None:
    alerts = [
        {"notifier": NOTIFIER, "arguments": {"path": f"{path.parent}/told{i}", "text": text}}
        for i, text in enumerate(texts)
    ]
    path.write_text(f"archives: {{shop: {{url: x, alerts: {alerts}}}}}")


def miss() -> None:
    context: dict[str, Any] = MISSED
    asyncio.run(tell_missed(archive="shop", within="10 min", context=context))


def test_the_notifiers_of_the_archive_are_told_which_run_is_late(configuration: Path, tmp_path: Path) -> None:
    configured(configuration, TEXT)
    miss()
    assert (tmp_path / "told0").read_text() == (
        "changes_shop deadline missed scheduled__1: run scheduled__1 of changes_shop is not done 10 min after it was "
        "queued\n"
    )


def test_a_notifier_that_fails_keeps_no_other_from_being_told(configuration: Path, tmp_path: Path) -> None:
    (tmp_path / "told0").mkdir()
    configured(configuration, "first", "second")
    with pytest.raises(ExceptionGroup) as failed:
        miss()
    assert [type(each) for each in failed.value.exceptions] == [IsADirectoryError]
    assert (tmp_path / "told1").read_text() == "second\n"
