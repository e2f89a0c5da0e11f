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


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    return now


def test_progress_has_a_line_a_minute_in_a_file_also_where_the_job_is_silent(
    now: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    output = Output(as_json=True)
    for _ in range(125):
        output.progress(record())
        now[0] += 1
    assert capsys.readouterr() == ("", "".join(f"  reading tables · {s} s\n" for s in (0, 60, 120)))


def test_progress_has_one_line_in_a_terminal_and_words_come_before_it(
    now: list[float], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    output = Output(as_json=True)
    for said in ((), ("one",)):
        output.progress(record(said=said), left_s=200.0)
        now[0] += 1
    output.say("done")
    clear = "\r\x1b[2K"
    lines = [f"  reading tables · {s} s · about 3 min left" for s in (0, 1)]
    assert capsys.readouterr().err == f"{lines[0]}{clear}one\n{lines[1]}{clear}done\n"


def test_what_a_job_tells_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    output = Output(as_json=True)
    for each in (None, record(said=("one",)), record(said=("one",)), record(said=("one", "two"), step="committing")):
        output.progress(each)
    output.hear(record(said=("one", "two", "three")))
    assert capsys.readouterr().err == "one\n  reading tables · 0 s\ntwo\nthree\n"


def test_no_word_shows_the_password_of_a_url(capsys: pytest.CaptureFixture[str]) -> None:
    output = Output(as_json=True)
    assert output.failure("cannot read postgresql://me:s3cr@t/x@here/db?password=s3cret", 2) == 2
    out, err = capsys.readouterr()
    assert "s3cr" not in out + err
    assert "postgresql://me:***@here/db" in err


def test_sizes_are_shown_in_decimal_units() -> None:
    shown = [human_size(size) for size in (0, 999, 1500, 2 * 10**6, 3 * 10**9, 4 * 10**12)]
    assert shown == ["0 B", "999 B", "1.5 kB", "2.0 MB", "3.0 GB", "4.0 TB"]
