"""The log of tasks is a line each, for operators, sensors and triggers alike."""

from __future__ import annotations

import importlib
import inspect
import logging
import pkgutil
from collections.abc import Iterator

import pytest
from airflow.sdk import BaseOperator
from airflow.triggers.base import BaseTrigger

import holdfast_airflow
from holdfast_airflow.exceptions import JobRefused
from holdfast_airflow.task_log import LineLog, LogsLines


def classes() -> Iterator[type]:
    """Yield our operators, sensors and triggers."""
    for package in ("operators", "sensors", "triggers"):
        for module in pkgutil.iter_modules([f"{holdfast_airflow.__path__[0]}/{package}"]):
            found = importlib.import_module(f"holdfast_airflow.{package}.{module.name}")
            for _, each in inspect.getmembers(found, inspect.isclass):
                if each.__module__ == found.__name__ and issubclass(each, (BaseOperator, BaseTrigger)):
                    yield each


@pytest.mark.parametrize("kind", list(classes()), ids=lambda kind: kind.__name__)
def test_every_operator_sensor_and_trigger_logs_lines(kind: type) -> None:
    assert issubclass(kind, LogsLines)
    assert kind.__mro__.index(LogsLines) < kind.__mro__.index(
        BaseOperator if issubclass(kind, BaseOperator) else BaseTrigger
    )


def test_a_message_is_one_line_at_every_level(caplog: pytest.LogCaptureFixture) -> None:
    log = LineLog(logging.getLogger("tests.task_log"))
    with caplog.at_level(logging.DEBUG, "tests.task_log"):
        for say in (log.debug, log.info, log.warning, log.error):
            say("the table %s", "a\nb\x1b[2J")
        log.info("no values \x9b")
    assert [record.getMessage() for record in caplog.records] == [r"the table a\nb\x1b[2J"] * 4 + [r"no values \x9b"]
    assert log.name == "tests.task_log"


def test_a_failure_is_one_line() -> None:
    assert str(JobRefused("table a\nb\x1b", 4)) == r"table a\nb\x1b"
