"""Notes of tasks: left where a task runs, and never in the way of its work."""

from __future__ import annotations

import logging
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pytest

from holdfast_airflow import notes
from holdfast_airflow.notes import FAILURE, RUN, leave_note


def running(monkeypatch: pytest.MonkeyPatch, push: Any) -> None:
    task = SimpleNamespace(xcom_push=push)
    monkeypatch.setattr(notes, "get_current_context", lambda: {"ti": task})


def test_a_note_is_left_as_a_plain_value_under_its_key(monkeypatch: pytest.MonkeyPatch) -> None:
    pushed: list[tuple[str, Any]] = []
    running(monkeypatch, lambda key, value: pushed.append((key, value)))
    leave_note(RUN, MappingProxyType({"run": "backup-1"}))
    assert pushed == [("holdfast_run", {"run": "backup-1"})]
    assert type(pushed[0][1]) is dict


def test_where_no_task_runs_nothing_happens() -> None:
    leave_note(FAILURE, {"sentence": "it failed"})


def test_what_airflow_does_not_take_is_logged_and_fails_no_task(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def push(key: str, value: object) -> None:
        raise ConnectionError("the API server is away")

    running(monkeypatch, push)
    with caplog.at_level(logging.WARNING):
        leave_note(FAILURE, {})
    assert "the page will not show holdfast_failure of this task: the API server is away" in caplog.text
