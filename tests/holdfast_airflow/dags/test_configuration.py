"""The DAG that fails while archives.yaml has a mistake."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from holdfast_airflow import archives
from holdfast_airflow.notifications.alerts import ArchiveAlerts
from tests.support.airflow.alerts import FileNotifier
from tests.support.airflow.dag_files import TWO, Read, dag

pytestmark = pytest.mark.slow


def test_the_dag_of_the_configuration_fails_while_there_is_a_mistake(
    read: Read, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task: Any = dag(read(TWO), "holdfast_configuration").get_task("check")
    check = task.python_callable
    path = tmp_path / "archives.yaml"
    monkeypatch.setenv("HOLDFAST_ARCHIVES", str(path))
    path.write_text("archives: {good: {url: y}}")
    check()
    path.write_text("archives: {good: {url: y}, one: {url: x, alerts: [{notifier: nobody.This}]}, two: {urll: x}}")
    with pytest.raises(AirflowFailException) as failed:
        check()
    first, second = str(failed.value).splitlines()
    assert "line 1: archives.two: unknown key 'urll'" in first
    assert "archives.one.alerts: there is no nobody.This here" in second
    path.unlink()
    with pytest.raises(AirflowFailException, match="there is no such file"):
        check()


@pytest.mark.parametrize("parsed_for", [None, "holdfast_configuration"])
def test_alerts_tell_of_mistakes_in_other_archives(
    read: Read, monkeypatch: pytest.MonkeyPatch, parsed_for: str | None
) -> None:
    """A task reads the file for its own DAG alone, which no archive's name ends."""
    monkeypatch.setattr(archives, "get_parsing_context", lambda: SimpleNamespace(dag_id=parsed_for))
    notifier = "{notifier: tests.support.airflow.alerts.FileNotifier, arguments: {path: told, text: x}}"
    bag = read(f"archives: {{good: {{url: y, alerts: [{notifier}]}}, bad: {{urll: x}}}}")
    task: Any = bag.dags["holdfast_configuration"].get_task("check")
    alerts: ArchiveAlerts = task.on_failure_callback[0].__self__
    assert [type(each) for each in alerts.channels] == [FileNotifier]
    assert alerts.memory.key == "holdfast_alerts"
