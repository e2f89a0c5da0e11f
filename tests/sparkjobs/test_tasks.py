from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from holdfast.errors import ReportedError
from sparkjobs import tasks
from sparkjobs.tasks import Tally, TallyParam, import_modules, pack


def test_small_items_share_tasks_and_a_heavy_one_has_its_own() -> None:
    packed = pack([3, 100, 2, 5, 4, 90], lambda item: item, room=10)
    assert packed == [[100], [90], [5, 4], [3, 2]]


def test_tasks_of_weightless_items_are_bounded_too() -> None:
    packed = pack(range(1000), lambda item: 0, room=1000, most=100)
    assert [len(task) for task in packed] == [100] * 10


def test_nothing_makes_no_task() -> None:
    assert pack([], lambda item: 1, room=10) == []


def test_tallies_of_tasks_add_up() -> None:
    param = TallyParam()
    failure = ReportedError("full", 1)
    total = param.addInPlace(Tally(1, 10, [failure]), Tally(2, 20))
    assert (total.rows, total.size, total.failures) == (3, 30, [failure])
    assert param.zero(total) == Tally()


@pytest.fixture
def frozen() -> Iterator[int]:
    tasks.keep_imports.cache_clear()
    yield gc.get_freeze_count()
    gc.unfreeze()


def test_what_a_worker_has_imported_is_collected_no_more(frozen: int) -> None:
    import_modules(["json"], iter([1, 2]))
    tasks.keep_imports()
    assert gc.get_freeze_count() > frozen
