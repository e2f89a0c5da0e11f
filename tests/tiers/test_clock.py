"""The clock of continuous integration at its limits."""

from __future__ import annotations

import pytest

from tests.support.runs.clock import Verdict, judge
from tests.support.runs.durations import Durations

RECORDED = Durations(
    {"tests/steady.py": (300, 3), "tests/grown.py": (700, 9)}, {"tests/grown.py::left_out_by_make_test": 500}
)
RAN = Durations({"tests/steady.py": (299, 3), "tests/grown.py": (800, 9), "tests/new.py": (60, 1)}, {})


def verdict(minutes: float) -> Verdict:
    seconds = minutes * 60
    log = f"... in 3s\n=== 1 passed in 1.00s ===\nnoise\n==== 9 failed, 4 passed in {seconds:.2f}s (0:00:00) ====\nmore"
    return judge(log, ran=RAN, recorded=RECORDED, whole=seconds + 90)


def test_tests_of_19_minutes_are_said_to_take_these_and_no_more_is_said() -> None:
    assert verdict(19) == Verdict(
        ("==== 9 failed, 4 passed in 1140.00s (0:00:00) ====", "The tests took 19 min; all, 20 min."), 0
    )


def test_tests_of_21_minutes_pass_but_what_grew_is_said_loudly() -> None:
    found = verdict(21)
    assert found.code == 0
    assert found.lines[0].startswith("THE TESTS TAKE TOO LONG: 21 min")
    assert found.lines[1:3] == (
        "  13 min in tests/grown.py, 3 min as recorded",
        "  1 min in tests/new.py, 0 s as recorded",
    )
    assert found.lines[-2].startswith("====")
    assert found.lines[-1].startswith("The tests took 21 min")


def test_tests_of_41_minutes_fail() -> None:
    found = verdict(41)
    assert found.code == 1
    assert "this fails" in found.lines[0]
    assert found.lines[-1].startswith("The tests took 41 min")


@pytest.mark.parametrize("minutes", [20, 40])
def test_the_limits_themselves_are_kept(minutes: int) -> None:
    assert verdict(minutes).code == 0


def test_a_log_without_a_run_of_tests_fails() -> None:
    assert judge("make: *** [Makefile:40: test] Error 1", ran=RAN, recorded=RECORDED, whole=7) == Verdict(
        ("No test was run, in 7 s.",), 1
    )


def test_a_coloured_closing_line_is_read_too() -> None:
    log = "\x1b[32m==== \x1b[32m\x1b[1m4 passed\x1b[0m\x1b[32m in 1.50s\x1b[0m\x1b[32m ====\x1b[0m\n"
    assert judge(log, ran=RAN, recorded=RECORDED, whole=2).lines[0] == "==== 4 passed in 1.50s ===="
