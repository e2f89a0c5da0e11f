"""What the demo shows where it writes to a file: steps, what has changed within one, and its report."""

from __future__ import annotations

import io
import time

import pytest
from rich.console import Console

from demo.screen import Line, Screen


@pytest.fixture
def words() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def screen(words: io.StringIO) -> Screen:
    return Screen(Console(file=words, width=200))


def test_what_is_said_is_no_markup(screen: Screen, words: io.StringIO) -> None:
    screen.say("[red]archive[/red]")

    assert words.getvalue() == "[red]archive[/red]\n"


def test_steps_are_numbered_and_say_when_they_are_done(screen: Screen, words: io.StringIO) -> None:
    with screen.step("Back up"):
        pass
    with screen.step("Restore"):
        screen.say("   exit 5")

    first, done, second, said, last = words.getvalue().splitlines()
    assert (first, second, said) == ("1. Back up", "2. Restore", "   exit 5")
    assert done.startswith("   done in ")
    assert last.startswith("   done in ")


def test_a_step_that_fails_is_not_said_to_be_done(screen: Screen, words: io.StringIO) -> None:
    with pytest.raises(ValueError, match="no"), screen.step("Back up"):
        raise ValueError("no")

    assert words.getvalue() == "1. Back up\n"


def test_progress_in_a_file_is_each_new_step_once(screen: Screen, words: io.StringIO) -> None:
    with screen.step("Back up") as show:
        show("starting")
        show("reading tables · 1 of 9")
        show("reading tables · 2 of 9")
        show("table 1,000 · 3 of 9")
        show("table 2,000 · 4 of 9")
        show("committing")

    assert words.getvalue().splitlines()[1:-1] == [
        "   starting",
        "   reading tables · 1 of 9",
        "   table 1,000 · 3 of 9",
        "   committing",
    ]


def test_progress_of_a_long_step_is_shown_again_if_it_has_changed(
    screen: Screen, words: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    with screen.step("Back up") as show:
        show("reading · 1 of 9")
        now += 1.9
        show("reading · 2 of 9")
        now += 0.2
        show("reading · 3 of 9")
        now += 1
        show("reading · 4 of 9")
        now += 60
        show("reading · 3 of 9")

    assert words.getvalue().splitlines()[1:] == ["   reading · 1 of 9", "   reading · 3 of 9", "   done in 63.1 s"]


HELD = Line("first backup", True, "9 rows")
NOT_HELD = Line("a time in the gap", False, "exit 0")


@pytest.mark.parametrize(
    ("lines", "held"), [([HELD], True), ([HELD, NOT_HELD], False), ([NOT_HELD, HELD], False), ([], False)]
)
def test_everything_held_if_each_line_did_and_there_is_one(
    screen: Screen, words: io.StringIO, lines: list[Line], held: bool
) -> None:
    assert screen.report(lines, []) is held

    last = words.getvalue().splitlines()[-1]
    assert last.startswith("Everything held, in " if held else "NOT everything held, in ")


def test_the_report_tells_each_line_and_where_things_are(screen: Screen, words: io.StringIO) -> None:
    screen.report([HELD, NOT_HELD], [("archive", "s3://demo/shop"), ("Airflow", "http://127.0.0.1:1")])

    rows = [line.split() for line in words.getvalue().splitlines()]
    assert ["yes", "first", "backup", "9", "rows"] in rows
    assert ["NO", "a", "time", "in", "the", "gap", "exit", "0"] in rows
    assert "archive: s3://demo/shop\nAirflow: http://127.0.0.1:1\n" in words.getvalue()
