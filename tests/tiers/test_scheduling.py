"""The order of files, their pieces, and what a process gets next."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.support.runs.scheduling import Unit, choose, plan

COLLECTED = ["tests/a/x.py::1", "tests/a/x.py::2", "tests/a/y.py::1", "tests/b/z.py::1"]


def units(
    estimate: dict[str, float], *, splits: Sequence[str] = (), last_runs: dict[str, int] | None = None
) -> list[tuple[tuple[str, ...], float, int]]:
    found = plan(list(estimate), estimate, splits=lambda file: file in splits, last_runs=last_runs or {})
    assert len({unit.name for unit in found}) == len(found)
    return [(unit.tests, unit.seconds, unit.last_run) for unit in found]


def order(waiting: list[Unit], *, folders: Sequence[str] = (), waits: float = 0) -> list[str]:
    """Hand out one unit after the other to one process."""
    left, names = list(waiting), []
    while left:
        left.remove(chosen := choose(left, waits=waits, folders=frozenset(folders)))
        names.append(chosen.name)
    return names


def unit(file: str, seconds: float, last_run: int = 0) -> Unit:
    return Unit(file, (f"{file}::test",), seconds, last_run)


def test_the_tests_of_a_file_stay_together() -> None:
    assert units(dict.fromkeys(COLLECTED, 50.0)) == [
        (("tests/a/x.py::1", "tests/a/x.py::2"), 100, 0),
        (("tests/a/y.py::1",), 50, 0),
        (("tests/b/z.py::1",), 50, 0),
    ]


def test_files_of_a_folder_that_say_so_stay_together() -> None:
    found = plan(
        COLLECTED,
        dict.fromkeys(COLLECTED, 50.0),
        splits=lambda file: False,
        together=lambda file: file.startswith("tests/a/"),
        last_runs={},
    )
    assert [unit.tests for unit in found] == [tuple(COLLECTED[:3]), tuple(COLLECTED[3:])]


def test_a_file_that_may_be_split_is_cut_into_pieces_of_a_minute_in_their_order() -> None:
    tests = {f"x.py::{number}": seconds for number, seconds in enumerate([30.0, 20, 10, 50, 10, 100, 20])}
    found = units(tests, splits=["x.py"])
    assert [piece for piece, _, _ in found] == [
        ("x.py::0", "x.py::1", "x.py::2"),
        ("x.py::3", "x.py::4"),
        ("x.py::5",),
        ("x.py::6",),
    ]


@pytest.mark.parametrize("seconds", [0.0, 1.0, 40.0])
def test_a_short_file_is_not_cut(seconds: float) -> None:
    assert len(units({"x.py::1": seconds, "x.py::2": seconds / 2}, splits=["x.py"])) == 1


def test_a_test_of_many_minutes_is_a_piece_of_its_own() -> None:
    assert [tests for tests, _, _ in units({"x.py::1": 600.0, "x.py::2": 5.0}, splits=["x.py"])] == [
        ("x.py::1",),
        ("x.py::2",),
    ]


def test_with_a_budget_those_of_a_file_that_were_not_run_are_apart_from_the_others() -> None:
    last_runs = {"tests/a/x.py::1": 7, "tests/a/y.py::1": 9}
    assert [(tests, last) for tests, _, last in units(dict.fromkeys(COLLECTED, 1.0), last_runs=last_runs)] == [
        (("tests/a/x.py::2",), 0),
        (("tests/a/x.py::1",), 7),
        (("tests/a/y.py::1",), 9),
        (("tests/b/z.py::1",), 0),
    ]


def test_the_longest_file_comes_first() -> None:
    assert order([unit("a/x", 3), unit("a/y", 300), unit("b/z", 30)]) == ["a/y", "b/z", "a/x"]


def test_what_was_not_run_for_longest_comes_before_what_is_longer() -> None:
    waiting = [unit("new", 1), unit("old", 100, 5), unit("older", 10, 3), unit("new and longer", 2)]
    assert order(waiting) == ["new and longer", "new", "older", "old"]


def test_a_folder_whose_servers_run_already_is_preferred_but_not_to_what_is_much_longer() -> None:
    waiting = [unit("a/x", 100), unit("b/y", 60), unit("b/z", 20)]
    assert choose(waiting, waits=0, folders=frozenset({"b"})).name == "b/y"
    assert choose([waiting[0], waiting[2]], waits=0, folders=frozenset({"b"})).name == "a/x"


def test_behind_a_long_test_waits_what_is_short() -> None:
    assert choose([unit("a", 100), unit("b", 3)], waits=60, folders=frozenset()).name == "b"
