"""A command of the bench writes what was measured, and its exit code says how that went."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from bench.support.command import measure_and_report
from bench.support.processes import ProgramError


@dataclass(frozen=True)
class Found:
    missed: tuple[str, ...] = ()


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """Signals are handled afterwards as before."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def ended(folder: Path, measure: Callable[[], Found]) -> int:
    return measure_and_report(
        "it", folder, measure, as_json=lambda found: "{}\n", as_markdown=lambda found: f"missed {len(found.missed)}"
    )


def test_the_report_is_written_into_a_new_folder_and_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "some" / "results"
    assert ended(folder, Found) == 0
    assert (folder / "it.json").read_text() == "{}\n"
    assert (folder / "it.md").read_text() == "missed 0"
    assert capsys.readouterr() == ("missed 0\n", "")


def test_what_was_not_reached_is_told_beside_the_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ended(tmp_path, lambda: Found(("speed", "memory"))) == 1
    assert capsys.readouterr() == ("missed 2\n", "not reached: speed\nnot reached: memory\n")


def test_a_failure_is_one_sentence_and_leaves_no_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> Found:
        raise ProgramError("no rows came")

    assert ended(tmp_path / "results", fail) == 1
    assert capsys.readouterr() == ("", "bench: no rows came\n")
    assert not (tmp_path / "results").exists()


def test_who_ends_it_gets_no_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def be_ended() -> Found:
        signal.raise_signal(signal.SIGTERM)
        return Found()

    assert ended(tmp_path / "results", be_ended) == 130
    assert capsys.readouterr() == ("", "interrupted: everything that was started is ended\n")
    assert not (tmp_path / "results").exists()
