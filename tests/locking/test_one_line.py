"""Text of others on one line, and loggers and handlers that keep to it."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest

from locking.one_line import LineLog, OneLineFormatter, guard_last_resort, line_logger, one_line


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain, caf\u00e9 \u2026 \u6f22 \U0001f600", "plain, caf\u00e9 \u2026 \u6f22 \U0001f600"),
        ("\x1b[31m\x07", r"\x1b[31m\x07"),
        ("a\r\nb\tc\x0b\x0c", r"a\r\nb\tc\x0b\x0c"),
        ("\x7f\x80\x85\x9b\x9f", r"\x7f\x80\x85\x9b\x9f"),
        ("\u2028\u2029", r"\u2028\u2029"),
        ("\u202a\u202e\u2066\u2069\u200e\u200f\u061c", r"\u202a\u202e\u2066\u2069\u200e\u200f\u061c"),
        ("\ud800\udcff", r"\ud800\udcff"),
        ("\u200d", "\u200d"),
    ],
)
def test_what_a_terminal_obeys_is_shown_instead(text: str, shown: str) -> None:
    assert one_line(text) == shown


def test_a_logger_writes_one_line_whatever_its_arguments_are(caplog: pytest.LogCaptureFixture) -> None:
    log = line_logger("tests.one_line")
    with caplog.at_level(logging.INFO, "tests.one_line"):
        log.info("lock of %s: %d", "a\nb\x1b", 3)
        log.warning("100 %\n")
        log.debug("unseen %s", "x")
    assert [record.getMessage() for record in caplog.records] == [r"lock of a\nb\x1b: 3", r"100 %\n"]
    assert {record.filename for record in caplog.records} == {"test_one_line.py"}


def test_what_no_handler_takes_is_one_line_each(monkeypatch: pytest.MonkeyPatch) -> None:
    class Known(logging.Handler):
        pass

    handler = Known()
    monkeypatch.setattr(logging, "lastResort", handler)
    guard_last_resort()
    assert isinstance(handler.formatter, OneLineFormatter)
    record = logging.LogRecord("x", logging.WARNING, "file", 1, "of %s", ("a\nb\x1b",), None)
    assert handler.format(record) == r"of a\nb\x1b"
    monkeypatch.setattr(logging, "lastResort", None)
    guard_last_resort()


def test_a_traceback_keeps_its_lines() -> None:
    try:
        raise ValueError("bad\x1b")
    except ValueError as error:
        information = (type(error), error, error.__traceback__)
    record = logging.LogRecord("x", logging.ERROR, "file", 1, "failed", (), information)
    first, *_, last = OneLineFormatter().format(record).split("\n")
    assert (first, last) == ("failed", r"ValueError: bad\x1b")


def test_a_message_is_one_line_at_every_level(caplog: pytest.LogCaptureFixture) -> None:
    log = LineLog(logging.getLogger("tests.one_line"))
    with caplog.at_level(logging.DEBUG, "tests.one_line"):
        for say in (log.debug, log.info, log.warning, log.error):
            say("the table %s", "a\nb\x1b[2J")
        log.info("no values \x9b")
    assert [record.getMessage() for record in caplog.records] == [r"the table a\nb\x1b[2J"] * 4 + [r"no values \x9b"]
    assert log.name == "tests.one_line"


def test_nothing_of_ours_prints_or_logs_past_it() -> None:
    root = Path(__file__).parents[2]
    past = re.compile(r"logging\.getLogger\(__name__\)|\bConsole\(|\bprint\(|typer\.(?:secho|style)")
    known = {
        "holdfast/cli/shared/output.py": 1,  # by a console that keeps to it
        "holdfast/spark_classes.py": 2,  # of a set-up, without a name of anybody's
        "sparkjobs/driver/application.py": 1,  # what keeps to it
    }
    found = {
        str(file.relative_to(root)): len(past.findall(re.sub(r"console\.print\(|words\.print\(", "", file.read_text())))
        for folder in ("holdfast", "locking", "plugins", "sparkjobs")
        for file in sorted((root / folder).rglob("*.py"))
    }
    assert {name: count for name, count in found.items() if count} == known
