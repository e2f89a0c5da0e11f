"""The reference is what the code says of itself: `make reference` writes it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "reference"


@pytest.mark.slow
def test_the_reference_is_up_to_date(tmp_path: Path) -> None:
    environment = {**os.environ, "AIRFLOW_HOME": str(tmp_path / "airflow"), "PYTHONPATH": f"{ROOT}:{ROOT / 'plugins'}"}
    made = tmp_path / "reference"
    subprocess.run([sys.executable, "scripts/write_reference.py", made], cwd=ROOT, env=environment, check=True)
    assert {file.name: file.read_text() for file in made.iterdir()} == {
        file.name: file.read_text() for file in FOLDER.iterdir()
    }
