"""Migration of an archive's format as a task."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.storage import ObjectStore
from holdfast_airflow.exceptions import JobRefused
from holdfast_airflow.operators import (
    MigrateOperator,
)
from tests.support.airflow.operators import FakeSpark, Play, run

pytestmark = pytest.mark.slow


def test_a_migration_keeps_all_others_out(
    store: ObjectStore, spark: FakeSpark, context: dict[str, Any], play: Play
) -> None:
    done = {"archive": "a", "from": 1, "format": 2, "commits": 3}
    play(done)
    assert run(MigrateOperator(task_id="save", archive="shop", to="2"), context) == done
    assert spark.told() == ["--to", "2"]
    assert spark.seen()["locks"] == ["format W save"]
    with pytest.raises(JobRefused, match="to is 'new': write a whole number"):
        run(MigrateOperator(task_id="save", archive="shop", to="new"), context)
