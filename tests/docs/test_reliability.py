"""The page on reliability has the counts of the run that is kept beside it, and names layers that are there."""

from __future__ import annotations

import json
from pathlib import Path

from soak import report

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reliability.md"


def test_the_counts_are_those_of_the_run() -> None:
    found = json.loads((ROOT / "soak" / "results" / f"{report.NAME}.json").read_text())
    assert f"{report.BEGIN}\n{report.section(found)}{report.END}" in PAGE.read_text()
    assert (ROOT / "soak" / "results" / f"{report.NAME}.md").read_text() == report.markdown(found)


def test_each_promise_was_judged_in_that_run() -> None:
    found = json.loads((ROOT / "soak" / "results" / f"{report.NAME}.json").read_text())
    assert [each["invariant"] for each in found["invariants"] if not each["looked"]] == []
