"""A mark as a task."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.operations.marks import SetMark
from holdfast.storage import ObjectStore
from holdfast_airflow.exceptions import JobRefused
from holdfast_airflow.operators import MarkOperator
from tests.support.airflow.operators import run


def test_a_mark_is_set_in_the_source_and_left_in_each_replica(
    store: ObjectStore, context: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, Any] = {}

    def set_mark(archive: Any, stores: Any, address: Any, source: str, name: str, **more: Any) -> SetMark:
        asked.update(stores=[each.url for each in stores], source=source, name=name, **more)
        return SetMark("0/1", archive.identity.created, "no pg_dump")

    monkeypatch.setattr("holdfast.operations.marks.set_mark", set_mark)
    done = run(MarkOperator(task_id="mark", archive="shop", name="before 4.2"), context)
    assert asked["stores"] == [store.url]
    assert (asked["source"], asked["name"], asked["tables"]) == ("shop_db", "before 4.2", ["*.*"])
    assert (done["mark"], done["position"], done["schema_note"]) == ("before 4.2", "0/1", "no pg_dump")


def test_a_name_that_means_something_else_is_refused_for_good(store: ObjectStore, context: dict[str, Any]) -> None:
    with pytest.raises(JobRefused, match="means something else"):
        run(MarkOperator(task_id="mark", archive="shop", name="latest"), context)
