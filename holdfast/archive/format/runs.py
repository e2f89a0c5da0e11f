"""Progress and result of jobs: `runs/<run>/<n>.json`, numbered, each written once.

They let a command, an operator or a person follow a job that runs elsewhere, and tell afterwards how
it ended; and a job that was killed goes on from the pieces that are recorded here. Nothing depends on
them for safety.
"""

from __future__ import annotations

import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from holdfast.archive.format.document import Document
from holdfast.archive.format.resume import BegunBlock, FinishedPiece, UnfinishedBlock
from holdfast.archive.format.signature import add_signature, signed_by
from holdfast.common.errors import SparkNeededError, UsageError, exit_code_of, kind_of, sentence
from holdfast.common.words import human_span
from holdfast.storage.contract.strangers import without_strangers
from holdfast.storage.encryption.signing_key import believed, signing_key
from locking.store import StoreError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType
    from typing import Self

    from holdfast.storage import ObjectInfo, ObjectStore

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
_RECORD = re.compile(r"runs/[^/]+/[0-9]{6,}\.json")
INTERVAL_S = 2.0
"""Seconds between two records of a step that goes on."""
_LAST_ATTEMPTS = 5
_READERS = 16

_NOT_STORED = {"truncation": "let go", "vacuum": "deleted", "verification": "looked at"}
"""What became of the bytes that operations tell of, where nothing was written."""

_KNOWN_PART = 0.02
_KNOWN_S = 10.0
"""Before so much of a step is done, for so long, its pace says nothing."""
_LEAST_LEFT_S = 10.0
"""An estimate is not finer than this."""


class RunError(Document):
    """Failure of a job: one sentence and its exit code."""

    type: str
    message: str
    exit_code: int


class RunRecord(Document):
    """Status of a job at one time.

    :param step: in words, such as "reading tables".
    :param rows, size: done so far; `estimated_rows` is the source's own estimate of the whole.
    :param elapsed_s: seconds since the job began; `step_s` since this step did.
    :param said: what the job has told people so far, beside its progress.
    :param begun: the block that the job has just begun to fill.
    :param block: the id of the block that `pieces` belong to, which were finished since the record before.
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
    begun: BegunBlock | None = None
    block: str | None = None
    pieces: tuple[FinishedPiece, ...] = ()
    result: dict[str, Any] | None = None
    error: RunError | None = None

    @property
    def left_s(self) -> float | None:
        """Estimate the seconds left in the step, by its pace so far.

        It is None where that would be a guess. The whole is the source's own estimate of its rows, so a table that was
        never analysed tells nothing.
        """
        known = self.estimated_rows > self.rows >= self.estimated_rows * _KNOWN_PART
        return self.step_s * (self.estimated_rows / self.rows - 1) if known and self.step_s >= _KNOWN_S else None

    def describe(self) -> str:
        """Describe the status in one line.

        It has the step, rows of how many, megabytes, seconds since the job began, and the time left.
        """
        if self.state == "failed":
            return "failed"
        parts = [self.step]
        if self.rows:
            whole = self.estimated_rows
            known = f" of about {whole:,} ({100 * self.rows // whole} %)" if whole > self.rows else ""
            parts.append(f"{self.rows:,} rows{known}, {self.rows / max(self.step_s, 1):,.0f} rows/s")
        if self.size and self.operation in _NOT_STORED:
            parts.append(f"{self.size / 1e6:,.1f} MB {_NOT_STORED[self.operation]}")
        elif self.size:
            parts.append(f"{self.size / 1e6:,.1f} MB stored, {self.size / 1e6 / max(self.elapsed_s, 1):.1f} MB/s")
        parts.append(f"{self.elapsed_s:.0f} s")
        if (left := self.left_s) is not None:
            parts.append(f"about {human_span(max(left, _LEAST_LEFT_S))} left")
        return " · ".join(parts)


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
    keys = _keys(store, run)
    return RunRecord.from_bytes(store.get(keys[-1]), keys[-1]) if keys else None


def last_records(store: ObjectStore, begin: str = "") -> list[ObjectInfo]:
    """Return the last record of each run, the newest one last; one listing.

    :param begin: of the runs' names.
    """
    last = {found.key.rpartition("/")[0]: found for found in _records(store, f"runs/{begin}")}
    return sorted(last.values(), key=lambda found: found.modified)


def read_unfinished(store: ObjectStore, run: str) -> UnfinishedBlock | None:
    """Return the last block that a run began, as far as written.

    All records of the run are read. Where signatures are asked for, those without one are left out: what they name
    would be committed, and signed.
    """
    keys, known = _keys(store, run), believed(store.signing)
    with ThreadPoolExecutor(_READERS) as pool:
        bodies = list(zip(keys, pool.map(store.get, keys), strict=True))
    records = [RunRecord.from_bytes(body, key) for key, body in bodies if known is None or signed_by(body, key, known)]
    begun = [record.begun for record in records if record.begun]
    if not begun:
        return None
    pieces = (piece for record in records if record.block == begun[-1].id for piece in record.pieces)
    return UnfinishedBlock(begun[-1], tuple(pieces))


def _keys(store: ObjectStore, run: str) -> list[str]:
    return [found.key for found in _records(store, _prefix(run))]


def _records(store: ObjectStore, begin: str) -> list[ObjectInfo]:
    return without_strangers(store.url, "runs/", store.list(begin).objects, is_record)


def is_record(key: str) -> bool:
    """Return whether a key is that of a run's record."""
    return _RECORD.fullmatch(key) is not None


class RunLog:
    """Writer of a job's records.

    As a context manager it records how the job ended. Progress is written at most every two seconds, by whoever calls
    `progress`. A process that goes on with a run goes on with its numbers and with what was said in it.
    """

    def __init__(self, store: ObjectStore, run: str, operation: str) -> None:
        self._store = store
        self._run = run
        self._operation = operation
        self._signing_key = signing_key(store.signing)
        self._written = -INTERVAL_S
        self._lock = threading.Lock()
        before = read_last(store, run)
        self.goes_on = before is not None
        """Another process has worked on this run before."""
        self._number = before.number + 1 if before else 0
        self._said = list(before.said) if before else []
        now = time.monotonic()
        self._started = now - (before.elapsed_s if before else 0)
        self._step = "starting"
        self._step_started = now
        self._block: str | None = None
        self._begun: BegunBlock | None = None
        self._pieces: list[FinishedPiece] = []
        self.result: dict[str, Any] | None = None
        self.found: dict[str, Any] | None = None
        """What is known even if the job fails."""
        self.last: RunRecord | None = None

    @property
    def elapsed_s(self) -> float:
        """Return the seconds since the run began."""
        return time.monotonic() - self._started

    def say(self, *words: str) -> None:
        """Add messages for people to the next progress."""
        self._said += words
        self._written = -INTERVAL_S

    def begin(self, block: BegunBlock) -> None:
        """Record the block that is begun, with the next progress."""
        with self._lock:
            self._block, self._begun, self._pieces = block.id, block, []

    def go_on(self, block: BegunBlock) -> None:
        """Continue a block that an earlier record has begun."""
        self._block = block.id

    def finished(self, pieces: Sequence[FinishedPiece]) -> None:
        """Record pieces of the block, with the next progress."""
        with self._lock:
            self._pieces += pieces

    def progress(self, step: str, *, rows: int = 0, size: int = 0, estimated_rows: int = 0) -> None:
        """Record the job's progress.

        A new step is recorded at once, the same step at most every two seconds. A record that cannot be written is left
        out: no job fails because nobody could watch it.
        """
        now = time.monotonic()
        if step == self._step and now - self._written < INTERVAL_S:
            return
        if step != self._step:
            self._step_started = now
        self._step, self._written = step, now
        with suppress(StoreError):
            self._write("running", rows=rows, size=size, estimated_rows=estimated_rows)

    def _write(self, state: Literal["running", "succeeded", "failed"], **more: Any) -> None:
        with self._lock:
            now = time.monotonic()
            pieces = tuple(self._pieces)
            record = RunRecord(
                run=self._run,
                number=self._number,
                operation=self._operation,
                state=state,
                step=self._step,
                elapsed_s=round(now - self._started, 3),
                step_s=round(now - self._step_started, 3),
                said=tuple(self._said),
                begun=self._begun,
                block=self._block,
                pieces=pieces,
                **more,
            )
            # The number is spent whatever happens: a lost reply may have written it.
            self._number += 1
            self.last = record
            name, body, key = f"{_prefix(self._run)}{record.number:06d}.json", record.to_bytes(), self._signing_key
            self._store.create(name, add_signature(body, name, key) if key else body)
            # Where the reply was lost it is told again: whoever reads it counts each piece once.
            self._begun, self._pieces = None, self._pieces[len(pieces) :]

    def _write_last(self, state: Literal["succeeded", "failed"], **more: Any) -> None:
        """Record how the job ended.

        After a store error, such as a lost reply, it is written again under the next number.
        """
        for attempt in Retrying(
            retry=retry_if_exception_type(StoreError),
            wait=wait_random_exponential(multiplier=0.2, max=5),
            stop=stop_after_attempt(_LAST_ATTEMPTS),
            reraise=True,
        ):
            with attempt:
                self._write(state, **more)

    def __enter__(self) -> Self:
        self.progress("starting")
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
        elif isinstance(error, SparkNeededError):
            self.progress("going over to Spark")
        else:
            self.fail(error)

    def fail(self, error: BaseException) -> None:
        """Record the error that ended the job."""
        failure = RunError(type=kind_of(error), message=sentence(error), exit_code=exit_code_of(error))
        with suppress(StoreError):  # the error itself matters more than its record
            self._write_last("failed", error=failure, result=self.found)
