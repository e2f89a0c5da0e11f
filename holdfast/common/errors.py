"""Errors: each is one sentence with a remedy, and has an exit code.

The exit codes are public: 0 done, 1 failed, 2 wrong usage, 3 busy, 4 damaged or not equal, 5 refused because it would
lose data, 6 outcome unknown.
"""

from __future__ import annotations

from typing import ClassVar

from locking.errors import LockBusy, LockError, LockStateUnknown
from locking.store import StoreError, StoreOutcomeUnknown


class HoldfastError(Exception):
    """Failure; the message says what failed, and what to do."""

    exit_code: ClassVar[int] = 1


class UsageError(HoldfastError):
    """Invalid name, URL, option or configuration."""

    exit_code = 2


class BusyError(HoldfastError):
    """Resource that is held by another; the message names the holder."""

    exit_code = 3


class DamagedError(HoldfastError):
    """Damaged data: stored bytes differ from those written, or two things that must be equal differ."""

    exit_code = 4


class MissingRowsError(DamagedError):
    """Changes of rows that do not exist."""


class RefusedError(HoldfastError):
    """Request refused since it would lose data, or restore something unintended."""

    exit_code = 5


class SparkEndedError(HoldfastError):
    """End of Spark from outside, in the middle of a job; it says nothing about the job."""


class TooMuchError(HoldfastError):
    """Input beyond a reader's bound; none of it counts."""


class SparkNeededError(HoldfastError):
    """Too much work for an inline job, which has done none of it and leaves it to Spark."""


class UndecodableError(RefusedError):
    """Entry in a source's log that logical decoding cannot give; it stops all incremental backups."""


class OutcomeUnknownError(HoldfastError):
    """Request with an unknown outcome: look before trying again."""

    exit_code = 6


class ReportedError(HoldfastError):
    """Failure that another process has reported, such as a job's driver.

    :param kind: the name of its error's type, if known.
    """

    def __init__(self, message: str, exit_code: int, kind: str = "") -> None:
        super().__init__(message, exit_code, kind)
        self.message = message
        self.reported_code = exit_code
        self.kind = kind

    def __str__(self) -> str:
        return self.message


_EXIT_CODES: dict[type[BaseException], int] = {LockBusy: 3, LockStateUnknown: 6, StoreOutcomeUnknown: 6}


def exit_code_of(error: BaseException) -> int:
    """Return an error's exit code; 1 if it has none of its own."""
    if isinstance(error, ReportedError):
        return error.reported_code
    if isinstance(error, HoldfastError):
        return error.exit_code
    return next((code for kind, code in _EXIT_CODES.items() if isinstance(error, kind)), 1)


def kind_of(error: BaseException) -> str:
    """Return the name of an error's type; of a reported one, the original's."""
    return (error.kind if isinstance(error, ReportedError) else "") or type(error).__name__


def is_ours(error: BaseException) -> bool:
    """Return whether an error was foreseen, so that its message says what to do."""
    return isinstance(error, (HoldfastError, LockError, StoreError))


def message_of(error: BaseException) -> str:
    """Return an error's message on one line.

    A database server's has its SQLSTATE, and lacks its CONTEXT, which may hold rows of a table.
    """
    message = str(error)
    diagnosis = getattr(error, "diag", None)  # of psycopg, which is slow to import
    if diagnosis is not None and diagnosis.message_primary:
        more = message.removeprefix(diagnosis.message_primary).partition("\nCONTEXT:")[0]
        message = f"{diagnosis.message_primary} (SQLSTATE {diagnosis.sqlstate}) {more}"
    return " ".join(message.split())


def sentence(error: BaseException) -> str:
    """Return an error's message on one line, with its type if it was not foreseen."""
    message = message_of(error)
    if is_ours(error):
        return message
    return f"{type(error).__name__}: {message}" if message else type(error).__name__
