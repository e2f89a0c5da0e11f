"""What is recorded of a run, and what is taken from it for tests that were recorded, and for others."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.runs.durations import Durations, spelled

RECORDED = Durations(
    files={"tests/a/one.py": (100, 6), "tests/a/two.py": (10, 5), "tests/b/three.py": (600, 1)},
    tests={"tests/a/one.py::long": 60, "tests/a/one.py::longer": 20, "tests/b/three.py::only": 600},
)


def test_a_long_test_takes_what_it_took_and_the_others_share_the_rest_of_their_file() -> None:
    found = RECORDED.estimate(["tests/a/one.py::long", "tests/a/one.py::short"])
    assert found == {"tests/a/one.py::long": 60, "tests/a/one.py::short": 5}


def test_an_unknown_file_takes_as_long_as_the_median_of_its_folder() -> None:
    found = RECORDED.estimate(["tests/a/new.py::x", "tests/a/new.py::y"])
    assert sum(found.values()) == 55


def test_a_file_of_an_unknown_folder_takes_as_long_as_the_median_of_all() -> None:
    assert RECORDED.estimate(["tests/c/new.py::x"]) == {"tests/c/new.py::x": 100}


def test_where_nothing_is_recorded_all_tests_are_alike() -> None:
    assert Durations().estimate(["a.py::x", "b.py::y"]) == {"a.py::x": 1, "b.py::y": 1}


def test_tests_beyond_those_recorded_of_a_file_are_unknown() -> None:
    short = [f"tests/a/one.py::{number}" for number in range(6)]
    assert RECORDED.unknown(["tests/a/one.py::long", *short, "tests/c/new.py::x"]) == 3


@pytest.mark.parametrize("text", [None, "", "{", "[]", '{"files": {}}', '{"files": {"a": 3}, "tests": {}}'])
def test_what_is_missing_or_damaged_says_nothing(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "durations.json"
    if text is not None:
        path.write_text(text)
    assert Durations.read(path) == Durations()


def test_what_is_written_is_read_again_and_has_a_sorted_line_for_each(tmp_path: Path) -> None:
    RECORDED.write(tmp_path / "durations.json")
    assert Durations.read(tmp_path / "durations.json") == RECORDED
    lines = [line for line in (tmp_path / "durations.json").read_text().splitlines() if line.startswith("  ")]
    assert len(lines) == 6
    assert lines[:3] == sorted(lines[:3])


def test_a_part_of_the_tests_replaces_what_was_recorded_of_these_alone() -> None:
    merged = RECORDED.merged({"tests/a/one.py::long": 6.4, "tests/a/one.py::short": 0.2}, whole=False)
    assert merged.files == {**RECORDED.files, "tests/a/one.py": (27, 3)}
    assert merged.tests == {**RECORDED.tests, "tests/a/one.py::long": 6}


def test_all_tests_replace_everything() -> None:
    merged = RECORDED.merged({"tests/a/one.py::short": 0.6}, whole=True)
    assert merged == Durations({"tests/a/one.py": (1, 1)}, {})


def test_files_that_are_gone_are_forgotten(tmp_path: Path) -> None:
    (tmp_path / "tests" / "b").mkdir(parents=True)
    (tmp_path / "tests" / "b" / "three.py").touch()
    kept = RECORDED.without_files_gone(tmp_path)
    assert set(kept.files) == {"tests/b/three.py"}
    assert set(kept.tests) == {"tests/b/three.py::only"}


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0 s"), (59.4, "59 s"), (60, "1 min"), (844, "14 min"), (7500, "2 h 5 min"), (7200, "2 h")],
)
def test_a_time_is_spelled_as_people_say_it(seconds: float, words: str) -> None:
    assert spelled(seconds) == words
