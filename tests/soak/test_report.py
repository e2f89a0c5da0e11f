"""The report counts what happened, and names what did not hold with its seed."""

from __future__ import annotations

import json
from pathlib import Path

from soak import report
from soak.checks.violation import Verdict
from soak.conductor import Outcome
from soak.journal import Event

EVENTS: list[Event] = [
    {"what": "end", "at": 1.0, "id": "a", "kind": "backup full", "code": 0},
    {"what": "end", "at": 1.0, "id": "b", "kind": "backup full", "code": 3},
    {"what": "killed", "at": 1.0, "id": "c", "command": True},
    {"what": "end", "at": 1.0, "id": "c", "kind": "restore", "code": -9},
    {"what": "fault", "at": 1.0, "kind": "S3 server killed"},
    {"what": "turn", "at": 1.0},
]


def outcome(*, holds: bool) -> Outcome:
    verdict = Verdict("it holds", passed_over=1)
    verdict.judge(holds, "it was seen not to")
    return Outcome(7, 60.0, EVENTS, [verdict], {"busy": 3}, 100, ["no disk could be made full"])


def test_counts_are_by_kind_and_by_how_it_ended(tmp_path: Path) -> None:
    found = report.figures(outcome(holds=True))
    assert found["operations"] == {"backup full": {"0": 1, "3": 1}, "restore": {"killed": 1}}
    assert found["faults"] == {"S3 server killed": 1}
    assert found["invariants"] == [{"invariant": "it holds", "looked": 1, "passed_over": 1, "violations": 0}]
    assert found["failures"] == []
    report.write(found, tmp_path)
    assert json.loads((tmp_path / "soak.json").read_text()) == found
    text = (tmp_path / "soak.md").read_text()
    assert "| restore |  |  | 1 |" in text
    assert "- no disk could be made full" in text
    assert "## Violations" not in text


def test_a_page_gets_the_counts_between_its_marks_and_keeps_the_rest(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n\n{report.BEGIN}\nold\n{report.END}\n\nafter\n")
    found = report.figures(outcome(holds=True))
    report.write_page(found, page)
    report.write_page(found, page)
    assert page.read_text() == f"before\n\n{report.BEGIN}\n{report.section(found)}{report.END}\n\nafter\n"
    assert "| it holds | 1 | 1 | 0 |" in report.section(found)


def test_what_did_not_hold_is_named_with_its_seed() -> None:
    found = report.figures(outcome(holds=False))
    assert found["failures"] == [{"seed": 7, "invariant": "it holds", "words": "it was seen not to"}]
    assert "- seed 7, it holds: it was seen not to" in report.markdown(found)
