"""How a command speaks."""

from __future__ import annotations

import pytest

from holdfast.archive.format.runs import RunRecord
from holdfast.cli.shared.output import Output
from holdfast.common.words import human_size


def record(**more: object) -> RunRecord:
    return RunRecord.model_validate(
        {"run": "r", "number": 1, "operation": "backup", "state": "running", "step": "reading tables", **more}
    )


def test_progress_is_said_when_it_changes(capsys: pytest.CaptureFixture[str]) -> None:
    output = Output(as_json=True)
    for each in (None, record(), record(), record(step="committing")):
        output.progress(each)
    assert capsys.readouterr() == ("", "  reading tables · 0 s\n  committing · 0 s\n")


def test_what_a_job_tells_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    output = Output(as_json=True)
    for each in (None, record(said=("one",)), record(said=("one",)), record(said=("one", "two"), step="committing")):
        output.progress(each)
    output.hear(record(said=("one", "two", "three")))
    assert capsys.readouterr().err == "one\n  reading tables · 0 s\ntwo\n  committing · 0 s\nthree\n"


def test_no_word_shows_the_password_of_a_url(capsys: pytest.CaptureFixture[str]) -> None:
    output = Output(as_json=True)
    assert output.failure("cannot read postgresql://me:s3cr@t/x@here/db?password=s3cret", 2) == 2
    out, err = capsys.readouterr()
    assert "s3cr" not in out + err
    assert "postgresql://me:***@here/db" in err


def test_sizes_are_shown_in_decimal_units() -> None:
    shown = [human_size(size) for size in (0, 999, 1500, 2 * 10**6, 3 * 10**9, 4 * 10**12)]
    assert shown == ["0 B", "999 B", "1.5 kB", "2.0 MB", "3.0 GB", "4.0 TB"]
