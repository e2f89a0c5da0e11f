"""Whatever a source or an archive names: no operator, sensor or trigger lets it break a line of a task's log."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator

import pytest
from airflow.sdk import BaseOperator
from airflow.triggers.base import BaseTrigger

import holdfast_airflow
from holdfast_airflow.exceptions import JobRefused
from locking.one_line import LogsLines


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


def test_a_failure_is_one_line() -> None:
    assert str(JobRefused("table a\nb\x1b", 4)) == r"table a\nb\x1b"
