"""The lines that docs/query.md shows for reading tables and a snapshot's files work as they stand there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.archive import Archive
from holdfast.storage import open_store
from tests.support.queried import fill

PAGE = Path(__file__).parents[2] / "docs" / "query.md"


@pytest.mark.parametrize(
    ("example", "total"),
    [
        ("duckdb", "6.00"),
        ("duckdb-moment", "6.50"),
        pytest.param("spark", "6.00", marks=[pytest.mark.service, pytest.mark.exhaustive]),
        pytest.param("spark-moment", "6.50", marks=pytest.mark.service),
    ],
)
def test_tables_and_files_are_read_by_the_lines_shown(tmp_path: Path, example: str, total: str) -> None:
    shown = re.search(rf"<!-- example: {example} -->\n```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert shown is not None
    fill(Archive.create(open_store(str(tmp_path / "archive")), name="shop").store)
    program = f"archive, block = {str(tmp_path / 'archive')!r}, 'b'\n{shown[1]}"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr[-2000:]
    (numbers,) = [line for line in done.stdout.splitlines() if total in line]
    assert re.findall(r"[\d.]+", numbers) == ["3", total]
