"""How a command speaks."""

from __future__ import annotations

import io
import sys
from contextlib import nullcontext

import pytest

from holdfast.archive.format.runs import RunRecord
from holdfast.cli.shared.output import Output
from holdfast.common.errors import UsageError
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


def test_progress_of_a_command_itself_is_printed_every_few_seconds(
    now: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    output = Output(as_json=False)
    for number in range(5):
        output.report(f"{number} read", every_s=2.0)
        now[0] += 1
    assert capsys.readouterr().err == "  2 read\n  4 read\n"


class Terminal(io.StringIO):
    """A terminal with what is typed, or what is shown."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("typed", "error"),
    [
        (Terminal("shop\n"), None),
        (Terminal("yes\n"), "that is not shop: nothing was done"),
        (io.StringIO("shop\n"), r"no terminal to ask at: nothing was done\. Add --yes"),
    ],
)
def test_a_person_is_asked_before_what_cannot_be_undone(
    monkeypatch: pytest.MonkeyPatch, typed: io.StringIO, error: str | None
) -> None:
    monkeypatch.setattr(sys, "stdin", typed)
    monkeypatch.setattr(sys, "stderr", shown := Terminal())
    with pytest.raises(UsageError, match=error) if error else nullcontext():
        Output(as_json=True).confirm("shop", "entry 1 is lost", yes=False)
    assert shown.getvalue().startswith("entry 1 is lost\n")
    Output(as_json=True).confirm("shop", "it is asked nothing", yes=True)
    assert "it is asked nothing" not in shown.getvalue()


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
