"""The lines that docs/query.md shows for reading tables and a snapshot's files work as they stand there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.archive import Archive
from holdfast.storage import open_store
from tests.support.archives.queried import fill
from tests.support.jobs.inline_jobs import session_arguments

PAGE = Path(__file__).parents[2] / "docs" / "query.md"


def lines_of(example: str) -> str:
    shown = re.search(rf"<!-- example: {example} -->\n```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert shown is not None
    return shown[1]


@pytest.mark.representatives("duckdb")
@pytest.mark.parametrize("engine", ["duckdb", pytest.param("spark", marks=pytest.mark.service)])
def test_tables_and_files_are_read_by_the_lines_shown(tmp_path: Path, engine: str) -> None:
    """Both examples of an engine run in one process: Spark is dear to start, and its session stays."""
    fill(Archive.create(open_store(str(tmp_path / "archive")), name="shop").store)
    given = f"archive, block = {str(tmp_path / 'archive')!r}, 'b'"
    program = "\n".join([given, lines_of(f"{engine}-moment"), lines_of(engine)])
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYSPARK_SUBMIT_ARGS": session_arguments("local[1]")},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    shown = [line for line in done.stdout.splitlines() if re.search(r"\d\.\d", line)]
    of_moment, of_files = (re.findall(r"[\d.]+", line) for line in shown)
    assert of_moment == ["3", "6.50"]
    assert of_files == ["3", "6.00"]
