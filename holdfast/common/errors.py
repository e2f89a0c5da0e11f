"""Errors for the person at the keyboard.

Each is one sentence, with what to do, and has an exit code. The exit codes are part of the public surface: 0 done, 1
failed, 2 wrong usage, 3 busy, 4 damaged or not equal, 5 refused because it would lose data, 6 outcome unknown.
"""

from __future__ import annotations

from typing import ClassVar

from locking.errors import LockBusy, LockError, LockStateUnknown
from locking.store import StoreError, StoreOutcomeUnknown


class HoldfastError(Exception):
    """Failure of any kind.

    The message says what failed, and what to do about it.
    """

    exit_code: ClassVar[int] = 1


class UsageError(HoldfastError):
    """Request that makes no sense as it stands.

    Examples are a bad name, URL, option or configuration.
    """

    exit_code = 2


class BusyError(HoldfastError):
    """Resource that is held by another.

    The message names the holder.
    """

    exit_code = 3


class DamagedError(HoldfastError):
    """Damaged data: stored bytes differ from those written.

    It is also raised where two things that must be equal are not.
    """

    exit_code = 4


class MissingRowsError(DamagedError):
    """Changes of rows that are not there."""


class RefusedError(HoldfastError):
    """Request refused to protect data.

    Done as asked, it would lose data or restore something other than what was meant.
    """

    exit_code = 5


class SparkEndedError(HoldfastError):
    """End of Spark from outside, in the middle of a job.

    It says nothing of the job itself.
    """


class TooMuchError(HoldfastError):
    """More to read than the reader may take.

    Nothing that it has read counts.
    """


class SparkNeededError(HoldfastError):
    """Too much work for a job that runs inline.

    The job leaves it to Spark: nothing of it was done.
    """


class UndecodableError(RefusedError):
    """Entry in a source's log that logical decoding cannot give.

    No backup of changes comes past it.
    """


class OutcomeUnknownError(HoldfastError):
    """Request with an unknown outcome.

    It may or may not have taken effect: look before trying again.
    """

    exit_code = 6


class ReportedError(HoldfastError):
    """Failure that another process has reported.

    That is a job's driver or a Spark task, for example.

    :param exit_code: the one that its error stands for.
    :param kind: the name of its error's type; "" where that is not known.
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
    """Return the exit code that an error stands for.

    It is 1 for any that has none of its own.
    """
    if isinstance(error, ReportedError):
        return error.reported_code
    if isinstance(error, HoldfastError):
        return error.exit_code
    return next((code for kind, code in _EXIT_CODES.items() if isinstance(error, kind)), 1)


def kind_of(error: BaseException) -> str:
    """Return the name of an error's type.

    For an error that another process has reported, it is the original one's, where known.
    """
    return (error.kind if isinstance(error, ReportedError) else "") or type(error).__name__


def is_ours(error: BaseException) -> bool:
    """Return whether an error was foreseen.

    Its message then says what happened and what to do.
    """
    return isinstance(error, (HoldfastError, LockError, StoreError))


def message_of(error: BaseException) -> str:
    """Return an error's message on one line.

    That of a database server has its SQLSTATE, and does not say where in the server it was raised: its CONTEXT may hold
    rows of a table.
    """
    message = str(error)
    diagnosis = getattr(error, "diag", None)  # of psycopg, which is not for every command to import
    if diagnosis is not None and diagnosis.message_primary:
        more = message.removeprefix(diagnosis.message_primary).partition("\nCONTEXT:")[0]
        message = f"{diagnosis.message_primary} (SQLSTATE {diagnosis.sqlstate}) {more}"
    return " ".join(message.split())


def sentence(error: BaseException) -> str:
    """Return an error's words on one line.

    One that was not foreseen is named by its type, too.
    """
    message = message_of(error)
    if is_ours(error):
        return message
    return f"{type(error).__name__}: {message}" if message else type(error).__name__
