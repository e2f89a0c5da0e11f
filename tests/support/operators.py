"""Operators as tasks run them, and what their spark-submit was told."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from airflow.sdk import BaseOperator

import locking
from holdfast.storage import ObjectStore
from holdfast_airflow.operators import BackupOperator

PASSWORD = "hunter2/%&"  # needs quoting in URLs


@dataclass(frozen=True)
class FakeSpark:
    """The stand-in for spark-submit."""

    note: Path
    play: Callable[[str], None]
    gone: list[str]
    """Why a snapshot is not held any more: one reason each time that is asked."""

    def seen(self) -> dict[str, Any]:
        """What it found when it ran: argv, env, locks, pids."""
        return dict(json.loads(self.note.read_text()))

    def starts(self) -> list[str]:
        """The snapshot that it was told each time it was started."""
        return self.note.with_suffix(".starts").read_text().splitlines()


def backup(**more: Any) -> BackupOperator:
    return BackupOperator(task_id="save", archive="shop", **more)


def run(operator: BaseOperator, context: dict[str, Any]) -> dict[str, Any]:
    """Execute as the task runner does; called plainly, the operator would warn of being outside one."""
    return dict(inspect.unwrap(type(operator).execute)(operator, context))


def locks_of(store: ObjectStore) -> list[str]:
    return [f"{info.resource} {info.mode}" for info in locking.inspect(store)]
