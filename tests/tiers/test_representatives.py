"""The mark that names which cases of a test stay in `make test`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.slow

SETTINGS = """
[pytest]
addopts = -p tests.support.runs.representatives -p no:cacheprovider
markers =
    representatives: as in the project
    exhaustive: as in the project
"""

TESTS = """
import pytest

@pytest.mark.representatives({named})
@pytest.mark.parametrize("case", ["a", "b", "c"])
def test_it(case): pass

def test_other(): pass
"""


def ran(project: Path, *words: str, named: str = '"b"') -> subprocess.CompletedProcess[str]:
    (project / "pytest.ini").write_text(SETTINGS)
    (project / "test_it.py").write_text(TESTS.format(named=named))
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rA", *words],
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_only_named_cases_are_run_but_by_who_runs_all(tmp_path: Path) -> None:
    some = ran(tmp_path, "-m", "not exhaustive")
    assert some.stdout.count("PASSED") == 2
    assert "PASSED test_it.py::test_it[b]" in some.stdout
    assert "4 passed" in ran(tmp_path).stdout
    assert "1 passed" in ran(tmp_path, "test_it.py::test_it[a]").stdout


def test_a_name_that_no_case_has_is_an_error(tmp_path: Path) -> None:
    wrong = ran(tmp_path, "-m", "not exhaustive", named='"b", "d"')
    assert wrong.returncode == 4
    assert "test_it.py::test_it has no case 'd' to represent it" in wrong.stderr
