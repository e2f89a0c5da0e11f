"""How a command speaks."""

from __future__ import annotations

import pytest

from holdfast.archive.runs import RunRecord
from holdfast.cli.output import Output, describe_progress, human_size


def record(**more: object) -> RunRecord:
    return RunRecord.model_validate(
        {"run": "r", "number": 1, "operation": "backup", "state": "running", "step": "reading tables", **more}
    )


def test_progress_tells_step_rows_and_speed() -> None:
    line = describe_progress(record(rows=1500, estimated_rows=3000, size=4_000_000, elapsed_s=2.0))
    assert line == "reading tables · 1,500 rows of about 3,000 · 4.0 MB stored, 2.0 MB/s · 2 s"


def test_an_estimate_that_was_too_low_is_left_out() -> None:
    assert describe_progress(record(rows=10, estimated_rows=5, elapsed_s=1)) == "reading tables · 10 rows · 1 s"


def test_progress_is_said_when_it_changes(capsys: pytest.CaptureFixture[str]) -> None:
    output = Output(as_json=True)
    for each in (None, record(), record(), record(step="committing")):
        output.progress(each)
    assert capsys.readouterr() == ("", "  reading tables · 0 s\n  committing · 0 s\n")


def test_no_word_shows_the_password_of_a_url(capsys: pytest.CaptureFixture[str]) -> None:
    output = Output(as_json=True)
    assert output.failure("cannot read postgresql://me:s3cr@t/x@here/db?password=s3cret", 2) == 2
    out, err = capsys.readouterr()
    assert "s3cr" not in out + err
    assert "postgresql://me:***@here/db" in err


def test_sizes_are_shown_in_decimal_units() -> None:
    shown = [human_size(size) for size in (0, 999, 1500, 2 * 10**6, 3 * 10**9, 4 * 10**12)]
    assert shown == ["0 B", "999 B", "1.5 kB", "2.0 MB", "3.0 GB", "4.0 TB"]
