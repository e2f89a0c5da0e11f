from __future__ import annotations

from sparkjobs.tasks.packing import pack


def test_small_items_share_tasks_and_a_heavy_one_has_its_own() -> None:
    packed = pack([3, 100, 2, 5, 4, 90], lambda item: item, room=10)
    assert packed == [[100], [90], [5, 4], [3, 2]]


def test_tasks_of_weightless_items_are_bounded_too() -> None:
    packed = pack(range(1000), lambda item: 0, room=1000, most=100)
    assert [len(task) for task in packed] == [100] * 10


def test_nothing_makes_no_task() -> None:
    assert pack([], lambda item: 1, room=10) == []
