"""Errors for people: an exit code and one sentence, whatever was raised and wherever."""

from __future__ import annotations

import pickle

import pytest

from holdfast.common import errors
from holdfast.common.errors import (
    BusyError,
    DamagedError,
    HoldfastError,
    OutcomeUnknownError,
    RefusedError,
    ReportedError,
    UndecodableError,
    UsageError,
    exit_code_of,
    is_ours,
    kind_of,
    sentence,
)
from locking.errors import InvalidLockName, LockBusy, LockLost, LockNotFound, LockOvertaken, LockStateUnknown
from locking.store import StoreDenied, StoreError, StoreOutcomeUnknown, StoreUnavailable

REPORTED = ReportedError("table x is not equal", 4, "DamagedError")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (HoldfastError("it failed"), 1),
        (UsageError("no such thing"), 2),
        (BusyError("held"), 3),
        (DamagedError("other bytes"), 4),
        (RefusedError("no"), 5),
        (UndecodableError("no"), 5),
        (OutcomeUnknownError("who knows"), 6),
        (REPORTED, 4),
        (ReportedError("as if nothing had been", 0), 0),
        (LockBusy("held"), 3),
        (LockOvertaken("too late"), 3),
        (LockLost("gone"), 1),
        (LockNotFound("gone"), 1),
        (InvalidLockName("bad"), 1),
        (LockStateUnknown("who knows"), 6),
        (StoreUnavailable("no answer"), 1),
        (StoreDenied("no"), 1),
        (StoreError("no"), 1),
        (StoreOutcomeUnknown("who knows"), 6),
        (ValueError("unforeseen"), 1),
        (KeyboardInterrupt(), 1),
    ],
)
def test_each_error_stands_for_an_exit_code(error: BaseException, code: int) -> None:
    assert exit_code_of(error) == code


def test_the_codes_are_those_of_the_page() -> None:
    """0 done, 1 failed, 2 wrong usage, 3 busy, 4 damaged, 5 refused, 6 outcome unknown; no class invents another."""
    kinds = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, HoldfastError)]
    assert {kind.exit_code for kind in kinds} == {1, 2, 3, 4, 5, 6}


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (DamagedError("x"), "DamagedError"),
        (REPORTED, "DamagedError"),
        (ReportedError("x", 1), "ReportedError"),
        (ZeroDivisionError(), "ZeroDivisionError"),
    ],
)
def test_the_kind_of_a_reported_error_is_that_of_the_first_one(error: BaseException, kind: str) -> None:
    assert kind_of(error) == kind


@pytest.mark.parametrize(
    ("error", "foreseen", "said"),
    [
        (UsageError("write\n  a  name"), True, "write a name"),
        (REPORTED, True, "table x is not equal"),
        (LockLost("the lock is lost"), True, "the lock is lost"),
        (StoreUnavailable("no answer"), True, "no answer"),
        (ValueError("bad\tvalue"), False, "ValueError: bad value"),
        (ValueError(), False, "ValueError"),
        (OSError(" \n"), False, "OSError"),
    ],
)
def test_an_error_is_said_on_one_line_and_an_unforeseen_one_by_its_type(
    error: BaseException, foreseen: bool, said: str
) -> None:
    assert (is_ours(error), sentence(error)) == (foreseen, said)


def test_an_error_that_another_process_reports_comes_through_whole() -> None:
    """Spark pickles what its tasks raise."""
    found = pickle.loads(pickle.dumps(REPORTED))  # noqa: S301 - our own bytes
    assert (str(found), found.reported_code, found.kind) == ("table x is not equal", 4, "DamagedError")
    assert (exit_code_of(found), kind_of(found), sentence(found)) == (4, "DamagedError", "table x is not equal")
