"""What schedulers know of backups comes from what was recorded of their ends."""

from __future__ import annotations

from pathlib import Path

from soak.faults import running_operations
from soak.journal import Journal
from soak.scheduler import acknowledged


def test_only_backups_that_were_reported_as_done_can_be_asked_for(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal", "operation-a")
    told = {"source": "shop", "result": {"restorable_to": "2026-03-01T00:00:02+00:00"}}
    journal.write("end", id="a", kind="backup full", code=0, **told)
    journal.write("end", id="b", kind="backup full", code=6, **told)
    journal.write("end", id="c", kind="restore", code=0, **told)
    journal.write("end", id="d", kind="backup full", code=0, source="shop", result={})
    assert [(each.operation, each.source) for each in acknowledged(tmp_path)] == [("a", "shop")]


def test_operations_run_from_their_begin_to_their_end(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal", "operation-a")
    journal.write("begin", id="a", pid=7)
    journal.write("begin", id="b", pid=8)
    journal.write("end", id="a")
    assert running_operations(tmp_path) == {"b": 8}
