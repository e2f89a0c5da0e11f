"""The outcome of a job after its process has ended, decided once for the command and for operators."""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.common.errors import DamagedError, ReportedError
from locking.store import StoreError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.archive.format.runs import RunRecord
    from holdfast.archive.format.state import State
    from holdfast.storage import ObjectStore

_LINES = 3
"""Last lines of its output, shown for a job that gave no reason."""


@dataclass(frozen=True)
class JobEnd:
    """The end of a job's process.

    :param code: its exit code, negative for a signal; None where it is not known, and is not 0.
    :param words: the sentence that its driver ended with.
    :param output: its last lines.
    """

    code: int | None = 0
    words: str = ""
    output: Sequence[str] = ()

    @property
    def how(self) -> str:
        """Return how it ended, in words."""
        if self.code is None:
            return "ended"
        return f"was ended by {_signal_name(-self.code)}" if self.code < 0 else f"ended with exit code {self.code}"


def last_words(output: str, operation: str) -> str:
    """Return the sentence that a driver ends with; "" where its output has none."""
    sentences = re.findall(rf"^(?:.*\s)?holdfast {operation}: (.+)", output, re.MULTILINE)
    return sentences[-1] if sentences else ""


def ended_job_result(store: ObjectStore, records: ObjectStore, operation: str, run: str, end: JobEnd) -> dict[str, Any]:
    """Return the result of a job that has ended, as `job_result` does.

    If the archive cannot be read, a driver that ended by itself with a reason is believed: it reports itself where the
    outcome of its commit is unknown.

    :param records: the object store of the job's records.
    :raises StoreError: the archive cannot be read, and the job gave no reason.
    """
    from holdfast.archive.format.runs import read_last  # takes a while to import, and Airflow's tasks import this early

    try:
        return job_result(store, operation, run, read_last(records, run), end)
    except StoreError as error:
        if not end.words or (end.code is not None and end.code <= 0):
            raise
        raise ReportedError(end.words, end.code or 1) from error


def job_result(store: ObjectStore, operation: str, run: str, record: RunRecord | None, end: JobEnd) -> dict[str, Any]:
    """Return the result of a job that has ended.

    The archive counts most: a job may be killed, or find the store full, after its commit. A record alone counts for
    nothing: the process must have ended well, or the commit that it names must be there.

    :param record: the newest record of the run, if any.
    :raises ReportedError: it failed; with its own sentence and exit code, if any.
    """
    result = (record.result if record is not None else None) or {}
    block = result.get("block") if operation == "backup" else None
    if record is not None and record.result is not None and block is None and end.code == 0:
        return result
    from holdfast.archive import Archive  # takes a while to import, and Airflow's tasks import this early
    from holdfast.archive.format.block import summary

    state = Archive.open(store, before_damage=True).state
    if block is not None and _is_there(state, block, result.get("commit")):
        return result
    if block is not None and end.code == 0:
        raise ReportedError(
            f"commit {result.get('commit')} does not hold the block of run {run}, as its record says: one of them was "
            "changed since. See 'holdfast status'",
            DamagedError.exit_code,
        )
    if operation == "backup" and (placed := state.finished_by(run)) is not None:
        return {"commit": placed.number, **summary(placed.block)}
    if record is not None and record.error is not None:
        raise ReportedError(record.error.message, record.error.exit_code)
    if end.words:
        raise ReportedError(end.words, max(end.code or 0, 1))
    step = f" while {record.step}" if record is not None and record.step else ""
    last = f" (its last output: {' | '.join(end.output[-_LINES:])})" if end.output else ""
    remains = _remains(operation, state, run)
    raise ReportedError(f"the job's process {end.how}{step} before it gave a reason; {remains}: try again{last}", 1)


def _is_there(state: State, block: str, commit: object) -> bool:
    """Return whether a block is in the archive by a commit of this number, or was until it was compacted."""
    placed = state.blocks.get(block)
    return placed.number == commit if placed is not None else block in state.removed


def _remains(operation: str, state: State, run: str) -> str:
    if operation not in ("backup", "restore"):
        return "its commits count"
    if state.of_run(run):
        return "its commits count, and the next backup continues from there"
    return "the archive is unchanged"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
