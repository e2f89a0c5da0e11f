"""What fails a task: one sentence, the command's exit code, and a retry only where it can help."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from holdfast.common.errors import (
    BusyError,
    DamagedError,
    HoldfastError,
    OutcomeUnknownError,
    RefusedError,
    ReportedError,
    UsageError,
)
from holdfast_airflow import exceptions
from holdfast_airflow.exceptions import JobFailed, JobRefused, in_airflow_terms
from locking import InvalidLockName, LockBusy
from locking.store import StoreDenied, StoreUnavailable


@pytest.fixture
def noted(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What is left for the page."""
    left: list[Any] = []
    monkeypatch.setattr(exceptions, "leave_note", lambda key, value: left.append((key, value)))
    return left


@pytest.mark.parametrize(
    ("error", "code", "again"),
    [
        (HoldfastError("it failed"), 1, True),
        (BusyError("somebody works"), 3, True),
        (UsageError("say which"), 2, False),
        (DamagedError("a file is gone"), 4, False),
        (RefusedError("not so"), 5, False),
        (OutcomeUnknownError("nobody knows"), 6, False),
        (ReportedError("the job said so", 4), 4, False),
        (LockBusy("held by process 7"), 3, True),
        (StoreUnavailable("no route"), 1, True),
        (StoreDenied("wrong key"), 1, False),
        (InvalidLockName("a/b"), 2, False),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_an_error_is_tried_again_only_where_that_can_help(
    error: Exception, code: int, again: bool, noted: list[Any]
) -> None:
    with pytest.raises(JobFailed) as caught, in_airflow_terms():
        raise error
    assert (str(caught.value), caught.value.exit_code) == (str(error), code)
    assert isinstance(caught.value, JobRefused) is not again
    assert isinstance(caught.value, AirflowFailException) is not again
    assert noted == [("holdfast_failure", {"sentence": str(error), "exit_code": code})]


def test_what_is_translated_already_is_noted_and_what_is_not_ours_stays(noted: list[Any]) -> None:
    with pytest.raises(JobFailed), in_airflow_terms(), in_airflow_terms():
        raise JobFailed("as it is", 3)
    assert [each[1] for each in noted] == [{"sentence": "as it is", "exit_code": 3}] * 2
    noted.clear()
    with pytest.raises(ZeroDivisionError), in_airflow_terms():
        raise ZeroDivisionError
    with in_airflow_terms():
        pass
    assert noted == []
