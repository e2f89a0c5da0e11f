"""Runs of pytest with the plugins of the tiers, on tests of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.runs.budget import budget_seconds
from tests.support.runs.durations import Durations

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.slow  # each test starts three interpreters

SETTINGS = """
[pytest]
addopts = -p xdist -p tests.support.runs.scheduling -p tests.support.runs.missing -p no:cacheprovider
    --import-mode=importlib
testpaths = tests
markers =
    splits: as in the project
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "pytest.ini").write_text(SETTINGS)
    (tmp_path / "tests").mkdir()
    return tmp_path


def write_tests(project: Path, name: str, text: str) -> None:
    (project / "tests" / name).write_text(f"import time, os, pytest\n{text}\n")


def run(project: Path, *options: str, processes: int = 1, code: int = 0, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", f"--numprocesses={processes}", "--dist=loadfile", "-rA", *options],
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


def record(project: Path, **seconds: int) -> None:
    files = {f"tests/test_{name}.py": (took, 1) for name, took in seconds.items()}
    Durations(files).write(project / "tests" / "durations.json")


WRITES_ORDER = """
def test_it():
    with open("order", "a") as file: file.write(os.path.basename(__file__) + " ")
"""


def test_files_run_longest_first_and_one_without_a_record_among_them(project: Path) -> None:
    for name in ("a", "b", "c", "d", "e"):
        write_tests(project, f"test_{name}.py", WRITES_ORDER)
    record(project, a=1, b=9, d=7, e=3)
    said = run(project)
    assert (project / "order").read_text().split() == [f"test_{name}.py" for name in "bdcea"]
    assert "5 tests, by 1 process: 25 s, as recorded; 1 have no recorded duration." in said


def test_a_marked_file_is_run_in_pieces_and_each_test_once(project: Path) -> None:
    text = "pytestmark = pytest.mark.splits\n" + "".join(
        f"def test_{number}():\n    time.sleep(0.3)\n" for number in range(6)
    )
    write_tests(project, "test_long.py", text)
    Durations({"tests/test_long.py": (360, 6)}).write(project / "tests" / "durations.json")
    said = run(project, "-v", processes=2)
    assert "6 passed" in said
    assert {line[1:4] for line in said.splitlines() if line.startswith("[gw")} == {"gw0", "gw1"}


@pytest.mark.exhaustive
def test_durations_are_written_where_that_is_asked_for_and_nowhere_else(project: Path) -> None:
    """A run without any record says so."""
    write_tests(project, "test_a.py", "def test_long():\n    pass\n\ndef test_not():\n    pytest.skip('no')\n")
    assert "2 tests, by 1 process; 2 have no recorded duration." in run(project)
    assert not (project / "tests" / "durations.json").exists()
    run(project, "--record-durations=tests/durations.json")
    assert json.loads((project / "tests" / "durations.json").read_text())["files"] == {"tests/test_a.py": [0, 1]}


SLOW = "".join(f"def test_{number}():\n    time.sleep(float(os.environ.get('TAKES_S', 0)))\n" for number in range(6))


@pytest.mark.exhaustive
def test_a_budget_says_what_it_left_out_and_the_next_one_begins_with_that(project: Path) -> None:
    write_tests(project, "test_slow.py", SLOW)
    said = run(project, "--budget=2s", TAKES_S="0.5")
    left = (project / ".work" / "tests-not-run.txt").read_text().split()
    assert 0 < len(left) < 6
    assert f"{len(left)} of 6 tests were not run: the budget of 2s is over" in said
    assert f"{len(left):5} of tests/test_slow.py" in said
    ran: set[str] = set()
    said = run(project, "--budget=none", "-v")
    assert "Each of the 6 tests has a result." in said
    stamps = json.loads((project / ".work" / "tests-run.json").read_text())
    del stamps[left[0]]
    (project / ".work" / "tests-run.json").write_text(json.dumps(stamps))
    said = run(project, "--budget=20s", "-v")
    ran.update(stamps)
    assert said.index(f"PASSED {left[0]}") < min(said.index(f"PASSED {test}") for test in ran)


def test_tests_that_failed_come_first_again(project: Path) -> None:
    write_tests(project, "test_a.py", "def test_right():\n    pass\n\ndef test_wrong():\n    raise ValueError\n")
    run(project, "--budget=none", code=1)
    assert list(json.loads((project / ".work" / "tests-run.json").read_text())) == ["tests/test_a.py::test_right"]


def test_a_process_that_dies_fails_the_run_and_what_it_had_is_named(project: Path) -> None:
    write_tests(project, "test_a.py", "def test_dies():\n    os._exit(3)\n\ndef test_after():\n    pass\n")
    said = run(project, "--max-worker-restart=0", code=1)
    assert "1 of tests/test_a.py, the first is test_after" in said


@pytest.mark.parametrize(
    ("text", "seconds"), [("2h", 7200), ("1h30m", 5400), ("90m", 5400), ("45s", 45), ("none", None), ("0s", 0)]
)
def test_a_budget_is_a_time(text: str, seconds: float | None) -> None:
    assert budget_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "2", "2 h", "h", "-1h", "1d"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="a budget is a time such as 2h"):
        budget_seconds(text)


def test_a_budget_without_processes_is_refused(project: Path) -> None:
    write_tests(project, "test_a.py", WRITES_ORDER)
    run(project, "--budget=2h", processes=0, code=4)


LEFT_OUT = """
from bench.support import missing
@pytest.fixture(scope="session")
def server():
    raise missing.MissingError("server", "There is no server.")
def test_by_fixture(server):
    pass
def test_by_call():
    raise missing.MissingError("server", "There is no server.")
"""


@pytest.mark.parametrize(("ci", "result"), [("", "2 skipped"), ("true", "1 failed, 1 error")])
def test_what_setting_up_left_out_is_skipped_and_fails_in_ci(project: Path, ci: str, result: str) -> None:
    (project / "server").write_text("the server is left out: no Go.\n")
    write_tests(project, "test_a.py", f"{LEFT_OUT}\nfrom pathlib import Path\nmissing.NOTES = Path({str(project)!r})\n")
    said = run(project, processes=0 if ci else 1, code=1 if ci else 0, CI=ci)
    assert result in said
    assert "the server is left out: no Go." in said


def test_what_is_missing_without_a_note_is_an_error(project: Path) -> None:
    write_tests(project, "test_a.py", f"{LEFT_OUT}\nfrom pathlib import Path\nmissing.NOTES = Path({str(project)!r})\n")
    said = run(project, processes=0, code=1, CI="")
    assert "1 failed, 1 error" in said
    assert "There is no server." in said
