"""Exceptions that fail a task: one sentence, and whether a retry can help."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from airflow.sdk.exceptions import AirflowException, AirflowFailException

from holdfast.common.errors import BusyError, HoldfastError, UsageError, exit_code_of
from holdfast_airflow.notes import FAILURE, leave_note
from locking import InvalidLockName, LockError
from locking.one_line import one_line
from locking.store import StoreDenied, StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_WORTH_ANOTHER_TRY = frozenset({HoldfastError.exit_code, BusyError.exit_code})


class JobFailed(AirflowException):
    """Failure that may pass, so that Airflow tries again where the task has retries.

    :param message: one sentence with what to do; put on one line, also where names in it have line breaks.
    :param exit_code: the command's exit code for the same failure.
    """

    def __init__(self, message: str, exit_code: int = HoldfastError.exit_code) -> None:
        super().__init__(one_line(message))
        self.exit_code = exit_code


class JobRefused(JobFailed, AirflowFailException):
    """Failure that stays: wrong usage, damage, refusal, unknown outcome. Airflow does not retry."""


class MissedObjectives(NamedTuple):
    """Objectives of a source that are missed for one reason: the reason without what changes, and all in a sentence."""

    source: str
    why: str
    sentence: str


class ObjectivesMissed(JobRefused):
    """Failure because objectives are missed."""

    def __init__(self, missed: Sequence[MissedObjectives]) -> None:
        super().__init__("; ".join(objective.sentence for objective in missed), 1)
        self.missed = missed


class LockWaitExpired(JobFailed):
    """Expired wait for a lock; the message names the holder."""


def failure(message: str, exit_code: int) -> JobFailed:
    """Return the exception for a failure with this exit code of the command."""
    kind = JobFailed if exit_code in _WORTH_ANOTHER_TRY else JobRefused
    return kind(message, exit_code)


@contextmanager
def in_airflow_terms() -> Iterator[None]:
    """Turn errors of Holdfast into those of this module, and note them for the page."""
    try:
        yield
    except (JobFailed, HoldfastError, LockError, StoreError) as error:
        failed = _translated(error)
        leave_note(FAILURE, {"sentence": str(failed), "exit_code": failed.exit_code})
        if failed is error:
            raise
        raise failed from None


def _translated(error: Exception) -> JobFailed:
    if isinstance(error, JobFailed):
        return error
    if isinstance(error, InvalidLockName):
        return JobRefused(str(error), UsageError.exit_code)
    return JobRefused(str(error)) if isinstance(error, StoreDenied) else failure(str(error), exit_code_of(error))
