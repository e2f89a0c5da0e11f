"""Operators as tasks run them, and what their spark-submit was told."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from airflow.sdk import BaseOperator

import locking
from holdfast.storage import ObjectStore
from holdfast_airflow.operators import AcquireLock, BackupOperator, ReleaseLock

PASSWORD = "hunter2/%&"  # needs quoting in URLs


class KeptBetweenTries:
    """Airflow's task state store of one task."""

    def __init__(self) -> None:
        self.words: dict[str, Any] = {}

    def get(self, key: str) -> Any:
        """Return a word, or nothing."""
        return self.words.get(key)

    def set(self, key: str, word: Any) -> None:
        """Keep a word."""
        self.words[key] = word

    def delete(self, key: str) -> None:
        """Forget a word, if it is there."""
        self.words.pop(key, None)


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

    def told(self) -> list[str]:
        """What the application was given, without archive and run."""
        argv = self.seen()["argv"]
        return list(argv[argv.index("--run") + 2 :])

    def starts(self) -> list[str]:
        """The snapshot that it was told each time it was started."""
        return self.note.with_suffix(".starts").read_text().splitlines()


def backup(**more: Any) -> BackupOperator:
    return BackupOperator(task_id="save", archive="shop", **more)


def execute(operator: BaseOperator, context: dict[str, Any] | None = None) -> Any:
    """Execute as the task runner does; called plainly, the operator would warn of being outside one."""
    return inspect.unwrap(type(operator).execute)(operator, context or {})


def run(operator: BaseOperator, context: dict[str, Any]) -> dict[str, Any]:
    """Execute an operator that returns what its job has done."""
    return dict(execute(operator, context))


def locks_of(store: ObjectStore) -> list[str]:
    return [f"{info.resource} {info.mode}" for info in locking.inspect(store)]


Play = Callable[[dict[str, Any]], None]
"""Lets the next jobs do nothing but return a result."""

MAINTENANCE = ["format R save", "maintenance W save"]
"""The locks of a task that maintains an archive."""


def acquire(**more: Any) -> AcquireLock:
    return AcquireLock(task_id="lock", archive="shop", resource="report", **more)


def release(context: dict[str, Any], handle: Any) -> None:
    """Run ReleaseLock in a context where AcquireLock has returned this."""
    pulled: list[str] = []

    def pull(*, task_ids: str) -> Any:
        pulled.append(task_ids)
        return json.loads(json.dumps(handle))

    task = SimpleNamespace(**vars(context["ti"]), xcom_pull=pull)
    execute(ReleaseLock(task_id="unlock", acquire="lock"), {"ti": task})
    assert pulled == ["lock"]
