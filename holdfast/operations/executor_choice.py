"""The choice of a job's executor: Spark, or inline, in one child process without Java.

Starting Spark costs five CPU seconds and a Java process. Where there is nothing to spread, the same application runs
inline; the process that holds the locks never runs it itself.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeVar, cast, get_args

from holdfast.common.errors import SparkNeededError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_T = TypeVar("_T")

Executor = Literal["auto", "inline", "spark"]

FORCED_VARIABLE: Final = "HOLDFAST_EXECUTOR"
"""The user's choice: `inline`, `spark`, or `auto`, which is the default."""

JOB_VARIABLE: Final = "HOLDFAST_JOB_EXECUTOR"
"""The parent's choice: `spark`, `inline`, or `bounded`, which is inline up to a bound."""

HAND_OVER: Final = 75
"""Exit code of a bounded job that did nothing, since it met more than its bound. Source: sysexits.h, EX_TEMPFAIL."""

INLINE_LOG_BYTES: Final = 32 << 20
"""The most of a source's log that a backup reads inline."""

INLINE_DATABASE_BYTES: Final = 256 << 20
"""Of a source's database, with its indexes: a full backup reads a larger one by Spark.

Reading so much takes less than Spark's start does.
"""

INLINE_CHANGES: Final = 100_000
"""The most messages of a source's log in one window of a bounded job."""

INLINE_STORED_BYTES: Final = 48 << 20
"""The most stored bytes that all tasks of a bounded job read."""

_DRIVER_ALONE: Final = frozenset({"truncation", "vacuum", "migration"})
"""Operations without tasks."""

_LOOKS_FIRST: Final = {"compaction": "there may be little to do", "restore": "it is planned first, and may be small"}
"""Operations whose driver learns under its locks how much there is to do."""


@dataclass(frozen=True)
class ExecutorChoice:
    """An executor for one job, with the reason; a bounded inline job hands more than its bound over to Spark."""

    executor: Literal["inline", "spark"]
    reason: str
    bounded: bool = False

    def environment(self) -> dict[str, str]:
        return {JOB_VARIABLE: "bounded" if self.bounded else self.executor}

    def __str__(self) -> str:
        return f"{'by Spark' if self.executor == 'spark' else 'inline, without Spark'}: {self.reason}"


def forced_executor(given: str | None = None) -> Executor:
    """Return the requested executor: the given one, else HOLDFAST_EXECUTOR. Raises UsageError for an unknown one."""
    executor = (given or os.environ.get(FORCED_VARIABLE) or "auto").strip().lower()
    if executor not in get_args(Executor):
        raise UsageError(f"{executor!r} is no executor: {FORCED_VARIABLE} is auto, inline or spark")
    return cast("Executor", executor)


def choose_executor(
    operation: str,
    *,
    forced: Executor = "auto",
    log_bytes: int | None = None,
    database_bytes: int | None = None,
    on_cluster: bool = False,
    reads_files: bool = True,
) -> ExecutorChoice:
    """Choose the executor of a job.

    :param log_bytes: bytes of the source's log that an incremental backup reads.
    :param database_bytes: size of the database that a full backup reads; None: it reads none, or it is not known yet.
    :param on_cluster: Spark's workers are on other machines, and read any full backup.
    :param reads_files: whether a verification reads the files' bytes.
    """
    if forced != "auto":
        return ExecutorChoice(forced, f"{FORCED_VARIABLE} or the operator says so")
    if operation in _DRIVER_ALONE:
        return ExecutorChoice("inline", f"a {operation} has nothing to spread")
    if operation == "verification" and not reads_files:
        return ExecutorChoice("inline", "no file's bytes are read")
    if operation in _LOOKS_FIRST:
        return ExecutorChoice("inline", _LOOKS_FIRST[operation], bounded=True)
    if operation == "backup" and log_bytes is not None:
        size, kind, bound = log_bytes, "log", INLINE_LOG_BYTES
    elif operation == "backup" and database_bytes is not None and not on_cluster:
        size, kind, bound = database_bytes, "database", INLINE_DATABASE_BYTES
    else:
        return ExecutorChoice("spark", f"a {operation} reads whole tables or files")
    mib, most = f"{size / 2**20:,.1f} MiB of {kind}", f"{bound >> 20} MiB"
    if size > bound:
        return ExecutorChoice("spark", f"{mib} are more than {most}")
    # What the log holds is known only when it is decoded; a database has its size before it is read.
    return ExecutorChoice("inline", f"{mib} are no more than {most}", bounded=kind == "log")


def run_chosen(choice: ExecutorChoice, run: Callable[[Mapping[str, str]], _T], note: Callable[[str], None]) -> _T:
    """Run a job by the chosen executor, and by Spark if it hands itself over.

    :param run: runs it once, with these environment variables; raises `SparkNeededError` for the hand-over.
    """
    note(str(choice))
    try:
        return run(choice.environment())
    except SparkNeededError as error:
        by_spark = ExecutorChoice("spark", f"{error} after all")
        note(str(by_spark))
        return run(by_spark.environment())


def check_hand_over(application: str, code: int) -> None:
    """Raise SparkNeededError for the exit code of a job that did nothing and handed itself over to Spark."""
    if code == HAND_OVER:
        raise SparkNeededError(f"this {application} has more to do than small work")


def is_inline(environment: Mapping[str, str]) -> bool:
    """Return whether a job in this environment runs without Spark."""
    return environment.get(JOB_VARIABLE, "spark") != "spark"
