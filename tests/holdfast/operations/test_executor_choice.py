from __future__ import annotations

from collections.abc import Mapping

import pytest

from holdfast.common.errors import UsageError
from holdfast.operations.executor_choice import (
    FORCED_VARIABLE,
    HAND_OVER,
    INLINE_DATABASE_BYTES,
    INLINE_LOG_BYTES,
    JOB_VARIABLE,
    ExecutorChoice,
    check_hand_over,
    choose_executor,
    forced_executor,
    is_inline,
    run_chosen,
)


@pytest.mark.parametrize("size", [0, 1, INLINE_LOG_BYTES])
def test_little_log_is_read_inline_up_to_a_bound(size: int) -> None:
    choice = choose_executor("backup", log_bytes=size)
    assert (choice.executor, choice.bounded) == ("inline", True)
    assert choice.environment() == {JOB_VARIABLE: "bounded"}


@pytest.mark.parametrize("size", [INLINE_LOG_BYTES + 1, 1 << 40])
def test_more_log_is_always_read_by_spark(size: int) -> None:
    choice = choose_executor("backup", log_bytes=size)
    assert choice.executor == "spark"
    assert "are more than 32 MiB" in str(choice)
    assert not is_inline(choice.environment())


@pytest.mark.parametrize(
    ("operation", "executor", "bounded"),
    [
        *[(operation, "spark", False) for operation in ("backup", "sync", "verification")],
        *[(operation, "inline", False) for operation in ("truncation", "vacuum", "migration")],
        *[(operation, "inline", True) for operation in ("compaction", "restore")],
    ],
)
def test_an_operation_has_its_executor(operation: str, executor: str, *, bounded: bool) -> None:
    choice = choose_executor(operation)
    assert (choice.executor, choice.bounded) == (executor, bounded)
    assert choose_executor("verification", reads_files=False).executor == "inline"


@pytest.mark.parametrize("forced", ["inline", "spark"])
@pytest.mark.parametrize(
    ("operation", "size"), [("backup", 0), ("backup", 1 << 40), ("vacuum", None), ("restore", None)]
)
def test_either_can_be_forced(forced: str, operation: str, size: int | None) -> None:
    choice = choose_executor(operation, forced=forced_executor(forced), log_bytes=size)
    assert choice.environment() == {JOB_VARIABLE: forced}


def test_people_say_it_by_the_environment_and_an_operator_goes_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(FORCED_VARIABLE, raising=False)
    assert forced_executor() == "auto"
    monkeypatch.setenv(FORCED_VARIABLE, " Spark ")
    assert (forced_executor(), forced_executor("inline")) == ("spark", "inline")


def test_another_word_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FORCED_VARIABLE, "yarn")
    with pytest.raises(UsageError, match="'yarn' is no executor: HOLDFAST_EXECUTOR is auto, inline or spark"):
        forced_executor()


def test_a_job_that_hands_itself_over_runs_by_spark_after_all() -> None:
    ran: list[str] = []
    notes: list[str] = []

    def run(environment: Mapping[str, str]) -> str:
        ran.append(environment[JOB_VARIABLE])
        check_hand_over("backup", HAND_OVER if is_inline(environment) else 0)
        return "done"

    assert run_chosen(ExecutorChoice("inline", "little to do", bounded=True), run, notes.append) == "done"
    assert ran == ["bounded", "spark"]
    assert notes == [
        "inline, without Spark: little to do",
        "by Spark: this backup has more to do than small work after all",
    ]


@pytest.mark.parametrize(
    ("size", "on_cluster", "executor"),
    [(INLINE_DATABASE_BYTES, False, "inline"), (INLINE_DATABASE_BYTES + 1, False, "spark"), (1, True, "spark")],
)
def test_a_full_backup_of_a_small_database_needs_no_spark_but_where_there_is_a_cluster(
    size: int, on_cluster: bool, executor: str
) -> None:
    choice = choose_executor("backup", database_bytes=size, on_cluster=on_cluster)
    assert (choice.executor, choice.bounded) == (executor, False)
