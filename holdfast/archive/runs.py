"""Progress and result of jobs: `runs/<run>/<n>.json`, numbered, each written once.

They let a command, an operator or a person follow a job that runs elsewhere, and tell afterwards how
it ended. Nothing depends on them for safety.
"""

from __future__ import annotations

import re
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from holdfast.archive.model import Document
from holdfast.errors import UsageError, exit_code_of, sentence
from locking.store import StoreError

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from holdfast.storage import ObjectStore

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
_INTERVAL_S = 2.0
_LAST_ATTEMPTS = 5

_KNOWN_PART = 0.02
_KNOWN_S = 10.0
"""Before so much of a step is done, for so long, its pace says nothing."""


class RunError(Document):
    """Why a job failed: one sentence, and the exit code it stands for."""

    type: str
    message: str
    exit_code: int


class RunRecord(Document):
    """What a job says of itself at one moment.

    :param step: in words, such as "reading tables".
    :param rows, size: done so far; `estimated_rows` is the source's own estimate of the whole.
    :param elapsed_s: seconds since the job began; `step_s` since this step did.
    :param said: what the job has told people so far, beside its progress.
    """

    run: str
    number: int
    operation: str
    state: Literal["running", "succeeded", "failed"]
    step: str
    rows: int = 0
    size: int = 0
    estimated_rows: int = 0
    elapsed_s: float = 0.0
    step_s: float = 0.0
    said: tuple[str, ...] = ()
    result: dict[str, Any] | None = None
    error: RunError | None = None

    @property
    def left_s(self) -> float | None:
        """Return about how many seconds the step goes on, judged by its pace so far; None where that would be a guess.

        The whole is the source's own estimate of its rows, so a table that was never analysed tells nothing.
        """
        known = self.estimated_rows > self.rows >= self.estimated_rows * _KNOWN_PART
        return self.step_s * (self.estimated_rows / self.rows - 1) if known and self.step_s >= _KNOWN_S else None

    def describe(self) -> str:
        """Return one line: step, rows of how many, megabytes stored, seconds since the job began, and what is left."""
        if self.state == "failed":
            return "failed"
        parts = [self.step]
        if self.rows:
            known = f" of about {self.estimated_rows:,}" if self.estimated_rows > self.rows else ""
            parts.append(f"{self.rows:,} rows{known}")
        if self.size:
            parts.append(f"{self.size / 1e6:,.1f} MB stored, {self.size / 1e6 / max(self.elapsed_s, 1):.1f} MB/s")
        parts.append(f"{self.elapsed_s:.0f} s")
        if (left := self.left_s) is not None:
            parts.append(f"about {_span(left)} left")
        return " · ".join(parts)


def _span(seconds: float) -> str:
    """Return a time for people, as coarse as an estimate is."""
    if seconds < 90:
        return f"{max(10, round(seconds, -1)):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def check_run_name(run: str) -> str:
    """Return `run` if it can name a run.

    :raises UsageError: it cannot.
    """
    if not _NAME.fullmatch(run):
        raise UsageError(f"{run!r} cannot name a run: use letters, digits, '.', '_' and '-', at most 200")
    return run


def _prefix(run: str) -> str:
    return f"runs/{check_run_name(run)}/"


def read_last(store: ObjectStore, run: str) -> RunRecord | None:
    """Return the newest record of a run, or None before its first."""
    keys = [found.key for found in store.list(_prefix(run)).objects]
    return RunRecord.from_bytes(store.get(keys[-1]), keys[-1]) if keys else None


class RunLog:
    """Writes a job's records; a context manager that records how the job ended.

    Progress is written at most every two seconds, by whoever calls `progress`.
    """

    def __init__(self, store: ObjectStore, run: str, operation: str) -> None:
        self._store = store
        self._run = run
        self._operation = operation
        self._started = time.monotonic()
        self._written = -_INTERVAL_S
        self._lock = threading.Lock()
        self._number = len(store.list(_prefix(run)).objects)
        self._step = "starting"
        self._step_started = self._started
        self._said: list[str] = []
        self.result: dict[str, Any] | None = None
        self.last: RunRecord | None = None

    def say(self, *words: str) -> None:
        """Tell people something, with the next progress."""
        self._said += words
        self._written = -_INTERVAL_S

    def progress(self, step: str, *, rows: int = 0, size: int = 0, estimated_rows: int = 0) -> None:
        """Record where the job is; a new step at once, the same step at most every two seconds.

        A record that cannot be written is left out: no job fails because nobody could watch it.
        """
        now = time.monotonic()
        if step == self._step and now - self._written < _INTERVAL_S:
            return
        if step != self._step:
            self._step_started = now
        self._step, self._written = step, now
        with suppress(StoreError):
            self._write("running", rows=rows, size=size, estimated_rows=estimated_rows)

    def _write(self, state: Literal["running", "succeeded", "failed"], **more: Any) -> None:
        with self._lock:
            now = time.monotonic()
            record = RunRecord(
                run=self._run,
                number=self._number,
                operation=self._operation,
                state=state,
                step=self._step,
                elapsed_s=round(now - self._started, 3),
                step_s=round(now - self._step_started, 3),
                said=tuple(self._said),
                **more,
            )
            # The number is spent whatever happens: a lost reply may have written it.
            self._number += 1
            self.last = record
            self._store.create(f"{_prefix(self._run)}{record.number:06d}.json", record.to_bytes())

    def _write_last(self, state: Literal["succeeded", "failed"], **more: Any) -> None:
        """Write how the job ended; after a lost reply once more, under the next number."""
        for attempt in Retrying(
            retry=retry_if_exception_type(StoreError),
            wait=wait_random_exponential(multiplier=0.2, max=5),
            stop=stop_after_attempt(_LAST_ATTEMPTS),
            reraise=True,
        ):
            with attempt:
                self._write(state, **more)

    def __enter__(self) -> Self:
        self.progress("starting Spark")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            result = self.result or {}
            self._step = "done"
            self._write_last("succeeded", rows=result.get("rows", 0), size=result.get("bytes", 0), result=result)
        else:
            code = exit_code_of(error)
            failure = RunError(type=type(error).__name__, message=sentence(error), exit_code=code)
            with suppress(StoreError):  # the error itself matters more than its record
                self._write_last("failed", error=failure)
