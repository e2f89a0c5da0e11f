"""Tallies of Spark's tasks, and what stays imported in its workers."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from holdfast.common.errors import ReportedError
from sparkjobs.executors import Tally, spark_task
from sparkjobs.executors.spark_task import TallyParam, import_modules


def test_tallies_of_tasks_add_up() -> None:
    param = TallyParam()
    failure = ReportedError("full", 1)
    total = param.addInPlace(Tally(1, 10, [failure]), Tally(2, 20))
    assert (total.rows, total.size, total.failures) == (3, 30, [failure])
    assert param.zero(total) == Tally()


@pytest.fixture
def frozen() -> Iterator[int]:
    spark_task.keep_imports.cache_clear()
    yield gc.get_freeze_count()
    gc.unfreeze()


def test_what_a_worker_has_imported_is_collected_no_more(frozen: int) -> None:
    import_modules(["json"], iter([1, 2]))
    spark_task.keep_imports()
    assert gc.get_freeze_count() > frozen
