"""DAGs that trim update logs."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk.exceptions import ParamValidationError

from holdfast.replication.log.settings import MAX_KEEP, MIN_KEEP
from tests.support.airflow.dag_files import TWO, Read, dag

pytestmark = pytest.mark.slow


def test_a_log_is_trimmed_hourly_by_numbers_that_make_sense(read: Read) -> None:
    bag = read(TWO)
    assert [name for name in bag.dags if name.startswith("replica_log_trimming")] == ["replica_log_trimming_twice"]
    found: Any = dag(bag, "replica_log_trimming_twice")
    assert (found.task_ids, found.schedule) == (["trim"], "@hourly")
    assert (found.params["min_keep"], found.params["max_keep"]) == (MIN_KEEP, MAX_KEEP)
    for name in ("min_keep", "max_keep"):
        assert found.params.get_param(name).resolve(0) == 0
        for wrong in (-1, "many", 1.5):
            with pytest.raises(ParamValidationError):
                found.params.get_param(name).resolve(wrong)
