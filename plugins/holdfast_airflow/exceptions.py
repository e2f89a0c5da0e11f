"""Exceptions that fail a task: one sentence, and whether a retry can help."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING

from airflow.sdk import get_current_context
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from holdfast.common.errors import BusyError, HoldfastError, UsageError, exit_code_of
from locking import InvalidLockName, LockError
from locking.store import StoreDenied, StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator

log = logging.getLogger(__name__)

FAILURE = "holdfast_failure"
"""The XCom with the sentence and the exit code of a task that has failed."""

_WORTH_ANOTHER_TRY = frozenset({HoldfastError.exit_code, BusyError.exit_code})


class JobFailed(AirflowException):
    """Failure of a job for a reason that may pass.

    Airflow tries again where the task has retries.

    :param message: one sentence with what to do.
    :param exit_code: the command's exit code for the same failure.
    """

    def __init__(self, message: str, exit_code: int = HoldfastError.exit_code) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class JobRefused(JobFailed, AirflowFailException):
    """Failure of a job for a reason that stays: wrong usage, damage, refusal, unknown outcome.

    Airflow does not retry.
    """


class LockWaitExpired(JobFailed):
    """Expired wait for a lock; the message names the holder."""


def failure(message: str, exit_code: int) -> JobFailed:
    """Return the exception for a failure with this exit code of the command."""
    kind = JobFailed if exit_code in _WORTH_ANOTHER_TRY else JobRefused
    return kind(message, exit_code)


@contextmanager
def in_airflow_terms() -> Iterator[None]:
    """Turn errors of Holdfast, of the locks and of the store into exceptions of this module.

    Airflow tries again by their type. In a task, the failure is recorded for the page.
    """
    try:
        with _translated():
            yield
    except JobFailed as error:
        _record_failure(error)
        raise


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except InvalidLockName as error:
        raise JobRefused(str(error), UsageError.exit_code) from None
    except StoreDenied as error:
        raise JobRefused(str(error)) from None
    except (HoldfastError, LockError, StoreError) as error:
        raise failure(str(error), exit_code_of(error)) from None


def _record_failure(error: JobFailed) -> None:
    """Put the sentence and the exit code where the page finds them: Airflow keeps only that a task has failed."""
    try:
        task = get_current_context()["ti"]
    except RuntimeError:  # no task runs, as in a trigger or the test button of a connection
        return
    try:
        task.xcom_push(key=FAILURE, value={"sentence": str(error), "exit_code": error.exit_code})
    except Exception as problem:  # noqa: BLE001 - whatever keeps Airflow from taking it, the failure itself matters
        log.warning("the page will not show why this task has failed: %s", problem)
