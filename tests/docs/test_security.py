"""What SECURITY.md promises of formats is what fixtures and tests of this repository hold."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROWS = re.findall(
    r"^\| .+ \| `(tests/fixtures/\w+)` \| `(tests/[\w/]+\.py)` \|$", (ROOT / "SECURITY.md").read_text(), re.MULTILINE
)
NOT_STORED = {"postgresql"}
"""Fixtures of no format: statements that make databases."""


def test_every_fixture_of_a_format_is_named() -> None:
    folders = {f"tests/fixtures/{each.name}" for each in (ROOT / "tests" / "fixtures").iterdir()}
    assert {folder for folder, _ in ROWS} == folders - {f"tests/fixtures/{name}" for name in NOT_STORED}


def test_the_test_that_is_named_reads_it() -> None:
    for folder, test in ROWS:
        name = folder.rpartition("/")[2]
        text = (ROOT / test).read_text()
        assert f'"{name}"' in text or "archive_fixture import" in text, f"{test} does not read {folder}"
