"""The site of the documentation has every page, and every link and heading in it leads somewhere: `make docs`."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_the_site_is_built_without_a_warning_and_loads_nothing_from_elsewhere() -> None:
    # The environment is there already; to build it again would take it from under the other tests.
    done = subprocess.run(["make", "-o", "setup", "docs"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    pages = list((ROOT / "build" / "site").rglob("*.html"))
    assert len(pages) > len(list((ROOT / "docs").rglob("*.md")))
    for page in pages:
        text = page.read_text()
        assert 'src="http' not in text
        assert 'rel="stylesheet" href="http' not in text
