"""Errors that reach the person at the keyboard: one sentence, what to do, and an exit code.

The exit codes are part of the public surface: 0 done, 1 failed, 2 wrong usage, 3 busy,
4 damaged or not equal, 5 refused because it would lose data, 6 outcome unknown.
"""

from __future__ import annotations

from typing import ClassVar

from locking.errors import LockBusy, LockError, LockStateUnknown
from locking.store import StoreError, StoreOutcomeUnknown


class HoldfastError(Exception):
    """Something failed; the message says what, and what to do about it."""

    exit_code: ClassVar[int] = 1


class UsageError(HoldfastError):
    """What was asked for makes no sense as it stands: a bad name, URL, option or configuration."""

    exit_code = 2


class BusyError(HoldfastError):
    """Somebody else holds what is needed; the message names them."""

    exit_code = 3


class DamagedError(HoldfastError):
    """Stored bytes are not what was written, or two things that must be equal are not."""

    exit_code = 4


class RefusedError(HoldfastError):
    """Done as asked, it would lose data or restore something other than what was meant."""

    exit_code = 5


class SparkEndedError(HoldfastError):
    """Spark was ended from outside in the middle of a job: it says nothing of the job itself."""


class TooMuchError(HoldfastError):
    """There is more to read than the reader was told to take; nothing that it has read counts."""


class SparkNeededError(HoldfastError):
    """A job that runs inline has met more than small work, and leaves it to Spark: nothing of it was done."""


class UndecodableError(RefusedError):
    """A source's log holds something that logical decoding cannot give: no backup of changes comes past it."""


class OutcomeUnknownError(HoldfastError):
    """A request may or may not have taken effect: look before trying again."""

    exit_code = 6


class ReportedError(HoldfastError):
    """What another process, such as a job's driver or a Spark task, said of its failure.

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
    """Return the exit code an error stands for; 1 for any that has none of its own."""
    if isinstance(error, ReportedError):
        return error.reported_code
    if isinstance(error, HoldfastError):
        return error.exit_code
    return next((code for kind, code in _EXIT_CODES.items() if isinstance(error, kind)), 1)


def kind_of(error: BaseException) -> str:
    """Return the name of an error's type, also where another process has reported it."""
    return (error.kind if isinstance(error, ReportedError) else "") or type(error).__name__


def is_ours(error: BaseException) -> bool:
    """Say whether an error was foreseen: its message then says what happened and what to do."""
    return isinstance(error, (HoldfastError, LockError, StoreError))


def sentence(error: BaseException) -> str:
    """Return an error's words on one line; one that was not foreseen is named by its type, too."""
    said = " ".join(str(error).split())
    if is_ours(error):
        return said
    return f"{type(error).__name__}: {said}" if said else type(error).__name__
