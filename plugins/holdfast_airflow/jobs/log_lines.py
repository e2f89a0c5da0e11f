"""Log of a task that runs a job; Spark's own lines go into a file beside it."""

from __future__ import annotations

import os
import re
import tempfile
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from locking.store import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.archive.format.runs import RunRecord

_SPARKS = re.compile(r"\d\d/\d\d/\d\d \d\d:\d\d:\d\d (?:INFO|WARN|DEBUG|TRACE) |WARNING: Using incubator modules")
_ABOUT_LOGGING = re.compile(r"Using Spark's default log4j|Setting default log level|To adjust logging level")
_PYTHONS = re.compile(r"\S+\.py:\d+: \w*Warning: ")
"""A warning of Python, whose source stands on the next line."""
_TRACE = re.compile(r"(?:at |\.\.\. \d+ more|Caused by: )")

POLL_S = 2.0
SAME_STEP_S = 10.0
_LAST_READ_S = 5.0
"""A read under way when the job ends is waited for so long, and is then left to its own time limit."""


class SparkLines:
    """Logger for spark-submit's output: Spark's own lines go into a file."""

    def __init__(self, log: Any, file: IO[str]) -> None:
        self._log = log
        self._file = file
        self._is_sparks = False
        self._is_pythons = False

    def info(self, words: str, *values: object) -> None:
        """Write a line to Spark's file or to the task's log."""
        line = words % values if values else words
        if self._belongs_to_spark(line):
            with suppress(OSError, ValueError):  # a full disk ends no job for lines that may never be read
                self._file.write(f"{line}\n")
        else:
            self._log.info("%s", line)

    def _belongs_to_spark(self, line: str) -> bool:
        was_pythons, self._is_pythons = self._is_pythons, bool(_PYTHONS.match(line))
        if self._is_pythons or was_pythons or _ABOUT_LOGGING.match(line) or line.startswith("Spark-Submit cmd:"):
            return True
        self._is_sparks = bool(_SPARKS.match(line)) or (self._is_sparks and bool(_TRACE.match(line)))
        return self._is_sparks

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)


@contextmanager
def spark_lines(log: Any, run: str) -> Iterator[SparkLines]:
    """Yield a logger with a private file, which stays only where the block fails."""
    handle, name = tempfile.mkstemp(prefix=f"holdfast-{run}-", suffix=".log")
    log.info("Spark's own log: %s on this worker, removed if the job succeeds", name)
    with os.fdopen(handle, "w", buffering=1, errors="replace") as file:
        yield SparkLines(log, file)
    Path(name).unlink(missing_ok=True)


@contextmanager
def progress_logged(
    read: Callable[[], RunRecord | None],
    say: Callable[[str], None],
    *,
    poll_s: float = POLL_S,
    same_step_s: float = SAME_STEP_S,
) -> Iterator[None]:
    """Log each step of a job while the block runs, and one that goes on now and then.

    :param read: returns the newest record of its run; called every `poll_s` seconds.
    :param same_step_s: seconds between two lines on a step that goes on.
    """
    ended = threading.Event()

    def watch() -> None:
        step, at = "", 0.0
        while not ended.wait(poll_s):
            record = None
            with suppress(StoreError):  # the job goes on whether it can be watched or not
                record = read()
            if ended.is_set() or record is None or record.state != "running":
                continue
            if record.step != step or time.monotonic() - at >= same_step_s:
                step, at = record.step, time.monotonic()
                say(record.describe())

    thread = threading.Thread(target=watch, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(_LAST_READ_S)
