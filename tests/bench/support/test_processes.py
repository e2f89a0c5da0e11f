"""Programs are timed, their failures told, and none is left behind."""

from __future__ import annotations

import sys

import pytest

from bench.support.processes import ProgramError, check_rows, run, run_together
from demo.supervisor import descendants

PYTHON = [sys.executable, "-S", "-c"]


def test_a_failure_is_told_with_its_last_words() -> None:
    with pytest.raises(ProgramError, match=r"ended with 3: no disk"):
        run([*PYTHON, "import sys; sys.stderr.write('no disk'); sys.exit(3)"], {})


@pytest.mark.slow
def test_an_interruption_ends_programs_and_what_they_started() -> None:
    sleeper = "import subprocess, sys; subprocess.run([sys.executable, '-S', '-c', 'import time; time.sleep(600)'])"
    started: set[int] = set()

    def interrupt_when_both_run(pid: int) -> None:
        started.update({pid} | descendants(pid))
        if len(started) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run([*PYTHON, sleeper], {}, watch=interrupt_when_both_run)
    assert len(started) == 2
    assert not started & descendants(1)


def test_a_failure_of_one_ends_the_other() -> None:
    with pytest.raises(ProgramError, match="ended with 1"):
        run_together([[*PYTHON, "raise SystemExit(1)"], [*PYTHON, "import time; time.sleep(600)"]], {})


def test_rows_that_are_missing_are_told() -> None:
    check_rows("pg_dump", 5, 5)
    with pytest.raises(ProgramError, match="pg_dump brought 4 rows instead of 5"):
        check_rows("pg_dump", 4, 5)
