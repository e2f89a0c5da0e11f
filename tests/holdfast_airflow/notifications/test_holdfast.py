"""The notifier that tells others what a failure says."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG, BaseOperator

from holdfast_airflow.exceptions import JobRefused
from holdfast_airflow.notifications import HoldfastNotifier
from tests.support.airflow.alerts import FileNotifier


@pytest.fixture
def failed() -> dict[str, Any]:
    """The context of a task that has failed."""
    with DAG("nightly") as dag:
        task = BaseOperator(task_id="load")
    instance = SimpleNamespace(dag_id="nightly", run_id="r1", task_id="load")
    return {"dag": dag, "ti": instance, "task": task, "exception": JobRefused("it would lose data", 5)}


def test_templates_of_a_channels_notifier_have_the_words(tmp_path: Path, failed: dict[str, Any]) -> None:
    text = "{{ holdfast.title }}|{{ holdfast.sentence }}|{{ holdfast.exit_code }}|{{ ti.task_id }}"
    channel = FileNotifier(path=str(tmp_path / "told"), text=text)
    HoldfastNotifier(channel)(failed)
    said = "nightly: load has failed (exit code 5)|it would lose data|5|load\n"
    assert (tmp_path / "told").read_text() == said


def test_without_a_channel_the_text_is_logged(failed: dict[str, Any], caplog: pytest.LogCaptureFixture) -> None:
    HoldfastNotifier()(failed)
    assert caplog.messages[:2] == ["nightly: load has failed (exit code 5)", "it would lose data"]
