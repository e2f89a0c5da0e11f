"""Progress and result of jobs: `runs/<run>/<n>.json`, numbered, each written once.

By them a job that runs elsewhere is followed, its end is known afterwards, and one that was killed goes on from its
pieces. Where signatures are asked for, a record without one is none: it is named once, and the one before it counts.
"""

from __future__ import annotations

import re
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from pydantic import Field
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from holdfast.archive.format.document import Document, Moment
from holdfast.archive.format.resume import BegunBlock, FinishedPiece, UnfinishedBlock
from holdfast.common.errors import (
    DamagedError,
    OutcomeUnknownError,
    SparkNeededError,
    UsageError,
    exit_code_of,
    kind_of,
    sentence,
)
from holdfast.common.side_by_side import do_side_by_side
from holdfast.common.words import human_span
from holdfast.storage.contract.strangers import without_strangers
from holdfast.storage.encryption.signed_store import NotSignedError
from locking.one_line import line_logger
from locking.store import ObjectNotFound, StoreError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import datetime
    from types import TracebackType
    from typing import Self

    from holdfast.storage import ObjectInfo, ObjectStore

log = line_logger(__name__)

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
INTERVAL_S = 2.0  # seconds between two records of a step that goes on
_LAST_ATTEMPTS = 5
_READERS = 16

_KEY: Final = re.compile(r"(runs/[^/]+)/([0-9]{6,15})\.json")
_STARTED: Final = re.compile(r"\.([0-9]{8}T[0-9]{6}Z)\.[0-9a-f]+$")
_MOST_LOOKS: Final = 100
"""Records of a run that are looked at until one is believed: a stranger may have added any number."""

AHEAD: Final = timedelta(minutes=10)  # a record may be so much ahead of the store's clock: a store may have several
_NOT_STORED = {"truncation": "let go", "vacuum": "deleted", "verification": "looked at"}
"""What became of the bytes that operations tell of, where nothing was written."""

_KNOWN_PART, _KNOWN_S = 0.02, 10.0  # before so much of a step is done, for so long, its pace says nothing
_LEAST_LEFT_S = 10.0  # an estimate is not finer than this


class RunError(Document):
    """Failure of a job: one sentence and its exit code."""

    type: str
    message: str
    exit_code: int


class RunRecord(Document):
    """Status of a job at one time."""

    run: str
    number: int
    operation: str
    state: Literal["running", "succeeded", "failed"]
    step: str  # in words, such as "reading tables"
    # rows, size, objects: done so far; `estimated_rows` is the source's own estimate, `of_objects` the whole
    rows: int = 0
    size: int = 0
    estimated_rows: int = 0
    elapsed_s: float = 0.0  # seconds since the job began; `step_s` since this step did
    step_s: float = 0.0
    step_rows: int = 0  # of `rows`, those that were done when the step began
    objects: int = 0
    of_objects: int = 0
    steps: dict[str, float] = Field(default_factory=dict)
    """Seconds that each finished step has taken; none where an earlier release wrote it."""
    at: Moment | None = None  # when it was written, by the store's clock; None where an earlier release wrote it
    said: tuple[str, ...] = ()  # messages of the job for people so far, beside its progress
    begun: BegunBlock | None = None  # the block that the job has just begun to fill
    block: str | None = None  # the id of the block that `pieces` belong to, which were finished since the record before
    pieces: tuple[FinishedPiece, ...] = ()
    result: dict[str, Any] | None = None
    error: RunError | None = None

    @property
    def left_s(self) -> float | None:
        """Estimate the seconds left in the step by its pace; None where that would be a guess."""
        known = self.estimated_rows > self.rows >= self.estimated_rows * _KNOWN_PART
        return self.step_s * (self.estimated_rows / self.rows - 1) if known and self.step_s >= _KNOWN_S else None

    def describe(self, left_s: float | None = None) -> str:
        """Describe the status in one line; `left_s`: seconds left of the whole job, where that is known."""
        if self.state == "failed":
            return "failed"
        parts = [self.step]
        if self.rows:
            whole = self.estimated_rows
            known = f" of about {whole:,} ({100 * self.rows // whole} %)" if whole > self.rows else ""
            done = self.rows - self.step_rows
            pace = f", {done / max(self.step_s, 1):,.0f} rows/s" if done > 0 and self.state == "running" else ""
            parts.append(f"{self.rows:,} rows{known}{pace}")
        if self.of_objects:
            parts.append(f"made {self.objects:,} of {self.of_objects:,} objects")
        if self.size and self.operation in _NOT_STORED:
            parts.append(f"{self.size / 1e6:,.1f} MB {_NOT_STORED[self.operation]}")
        elif self.size:
            parts.append(f"{self.size / 1e6:,.1f} MB stored, {self.size / 1e6 / max(self.elapsed_s, 1):.1f} MB/s")
        parts.append(f"{self.elapsed_s:.0f} s")
        if left_s is not None:
            parts.append(f"about {human_span(max(left_s, _LEAST_LEFT_S))} left")
        elif (left := self.left_s) is not None:
            parts.append(f"about {human_span(max(left, _LEAST_LEFT_S))} left of this step")
        return " · ".join(parts)


def check_run_name(run: str) -> str:
    """Return `run` if it can name a run; UsageError: it cannot."""
    if not _NAME.fullmatch(run):
        raise UsageError(f"{run!r} cannot name a run: use letters, digits, '.', '_' and '-', at most 200")
    return run


class Recorded(NamedTuple):
    """Newest record of a run, and when it was written, by the store's clock."""

    record: RunRecord
    at: datetime


@dataclass(frozen=True)
class ListedRun:
    """Run whose records were listed, the oldest first, and the store's time then."""

    store: ObjectStore
    infos: Sequence[ObjectInfo]
    now: datetime

    @property
    def name(self) -> str:
        return self.infos[-1].key.split("/")[1]

    @property
    def next_number(self) -> int:
        """Return the number of its next record: behind all that are there, of any writer."""
        return int(self.infos[-1].key.rpartition("/")[2].removesuffix(".json")) + 1 if self.infos else 0

    @property
    def begun(self) -> str:
        """Return when it began, by its name, in the form of names; else when its last record was stored."""
        found = _STARTED.search(self.name)
        return found[1] if found else f"{self.infos[-1].modified:%Y%m%dT%H%M%SZ}"

    def newest(self) -> Recorded | None:
        """Read the newest record that counts, and name others: damaged, not believed, or of a time to come."""
        for info in self.infos[: -_MOST_LOOKS - 1 : -1]:
            try:
                record = RunRecord.from_bytes(self.store.get(info.key), info.key)
            except ObjectNotFound:
                continue
            except DamagedError as error:
                _name(self.store.url, str(error))
                continue
            at = min(record.at or info.modified, info.modified)
            if max(at, record.at or at) - self.now <= AHEAD:
                return Recorded(record, at)
            _name(self.store.url, f"{info.key} is of {record.at or at}, which is still to come")
        return None


@lru_cache(maxsize=1024)
def _name(place: str, problem: str) -> None:
    """Name a record that does not count, once in a process."""
    log.warning("%s: %s. It counts for nothing", place, problem)


def listed_runs(store: ObjectStore, begin: str = "", *, since: str = "", most: int | None = None) -> list[ListedRun]:
    """List all runs, the newest one last; one request.

    :param begin: of their names.
    :param since, most: so many records are listed, whose names go on with this or later.
    """
    listing = store.list(f"runs/{begin}", start_after=f"runs/{begin}{since}" if since else "", most=most)
    runs: dict[str, list[tuple[int, ObjectInfo]]] = {}
    for info in without_strangers(store.url, "runs/", listing.objects, _KEY.fullmatch):
        if found := _KEY.fullmatch(info.key):
            runs.setdefault(found[1], []).append((int(found[2]), info))
    listed = (ListedRun(store, _in_order(infos), listing.now) for infos in runs.values())
    return sorted(listed, key=lambda run: (run.begun, run.infos[-1].modified))


def _in_order(numbered: Iterable[tuple[int, ObjectInfo]]) -> list[ObjectInfo]:
    return [info for _, info in sorted(numbered, key=lambda each: each[0])]


def newest_records(runs: Sequence[ListedRun]) -> Iterator[Recorded]:
    """Return the newest record of each run that has one which counts, in their order."""
    return filter(None, do_side_by_side(ListedRun.newest, runs, at_once=_READERS))


def read_last(store: ObjectStore, run: str) -> RunRecord | None:
    """Return the newest record of a run that is to be believed, or None; DamagedError: it is damaged."""
    return _last(store, _listed(store, run).infos)


def _last(store: ObjectStore, infos: Sequence[ObjectInfo]) -> RunRecord | None:
    for info in infos[: -_MOST_LOOKS - 1 : -1]:
        try:
            return RunRecord.from_bytes(store.get(info.key), info.key)
        except NotSignedError as error:
            _name(store.url, str(error))
    return None


def read_unfinished(store: ObjectStore, run: str) -> UnfinishedBlock | None:
    """Return the last block that a run began, as far as written, by all believed records.

    What the others name would be committed, and signed.
    """
    keys = [info.key for info in _listed(store, run).infos]
    documents = list(zip(keys, do_side_by_side(store.read, keys, at_once=_READERS), strict=True))
    records = [RunRecord.from_bytes(document.body, key) for key, document in documents if document.is_believed]
    begun = [record.begun for record in records if record.begun]
    if not begun:
        return None
    pieces = (piece for record in records if record.block == begun[-1].id for piece in record.pieces)
    return UnfinishedBlock(begun[-1], tuple(pieces))


def _listed(store: ObjectStore, run: str) -> ListedRun:
    listing = store.list(f"runs/{check_run_name(run)}/")
    numbered = [(int(found[2]), info) for info in listing.objects if (found := _KEY.fullmatch(info.key))]
    return ListedRun(store, _in_order(numbered), listing.now)


def record_key(run: str, number: int) -> str:
    return f"runs/{check_run_name(run)}/{number:06d}.json"


class RunLog:
    """Writer of a job's records; as a context manager it records how the job ended.

    Progress is written at most every two seconds. A process that goes on with a run goes on with its numbers and
    messages. Where records without a signature count for nothing, and none can be made, none is written.

    :param always: write them all the same.
    """

    def __init__(self, store: ObjectStore, run: str, operation: str, *, always: bool = False) -> None:
        self._writes = always or not store.signing.only_checks
        self._store = store
        self._run = run
        self._operation = operation
        self._written = -INTERVAL_S
        self._lock = threading.Lock()
        listed = _listed(store, run)
        before = _last(store, listed.infos)
        self.goes_on = before is not None  # another process has worked on this run before
        self._number = listed.next_number
        self._said = list(before.said) if before else []
        now = time.monotonic()
        self._clock = listed.now, now
        self._started = now - (before.elapsed_s if before else 0)
        self._step = "starting"
        self._step_started = now
        self._step_rows = 0
        self._steps = dict(before.steps) if before else {}
        self._block: str | None = None
        self._begun: BegunBlock | None = None
        self._pieces: list[FinishedPiece] = []
        self.result: dict[str, Any] | None = None
        self.found: dict[str, Any] | None = None  # what is known even if the job fails
        self.last: RunRecord | None = None

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self._started

    def say(self, *words: str) -> None:
        """Add messages for people to the next progress, but those that an executor before has added."""
        self._said += [each for each in words if each not in self._said]
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

    def progress(self, step: str, *, rows: int = 0, **counts: int) -> None:
        """Record the job's progress: a new step at once, the same one every two seconds; no failure ends the job."""
        now = time.monotonic()
        if step == self._step and now - self._written < INTERVAL_S:
            return
        self._enter_step(step, rows, now)
        self._written = now
        with suppress(StoreError):
            self._write("running", rows=rows, **counts)

    def _enter_step(self, step: str, rows: int, now: float) -> None:
        if step != self._step:
            self._steps[self._step] = round(self._steps.get(self._step, 0.0) + now - self._step_started, 3)
            self._step, self._step_started, self._step_rows = step, now, rows

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
                step_rows=self._step_rows,
                steps=dict(self._steps),
                at=self._clock[0] + timedelta(seconds=now - self._clock[1]),
                said=tuple(self._said),
                begun=self._begun,
                block=self._block,
                pieces=pieces,
                **more,
            )
            # The number is spent whatever happens: a lost reply may have written it.
            self._number += 1
            self.last = record
            if self._writes:
                self._store.create(record_key(self._run, record.number), record.to_bytes())
            # Where the reply was lost it is told again: whoever reads it counts each piece once.
            self._begun, self._pieces = None, self._pieces[len(pieces) :]

    def _write_last(self, state: Literal["succeeded", "failed"], **more: Any) -> None:
        """Record how the job ended, after a store error again under the next number."""
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
            self._enter_step("done", result.get("rows", 0), time.monotonic())
            try:
                self._write_last("succeeded", rows=result.get("rows", 0), size=result.get("bytes", 0), result=result)
            except StoreError as unwritten:
                said = f"the work is done, but its result could not be written ({unwritten})"
                raise OutcomeUnknownError(f"{said}: look with 'holdfast status' before trying again") from unwritten
        elif isinstance(error, SparkNeededError):
            self.progress("going over to Spark")
        else:
            self.fail(error)

    def fail(self, error: BaseException) -> None:
        failure = RunError(type=kind_of(error), message=sentence(error), exit_code=exit_code_of(error))
        with suppress(StoreError):  # the error itself matters more than its record
            self._write_last("failed", error=failure, result=self.found)
