"""The records of an archive's drills, as they are shown."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Literal

import pytest

from holdfast.archive.format.runs import RunError, RunRecord
from holdfast.common.errors import DamagedError
from holdfast.drill.history import PREFIX, drills_of, last_good_drill
from tests.support.stores.memory_store import MemoryStore


class Drills:
    """A store with records of drills, written a minute apart."""

    def __init__(self) -> None:
        self.store = MemoryStore()

    def write(
        self, run: str, number: int, state: Literal["running", "succeeded", "failed"] = "running", **more: Any
    ) -> None:
        record = RunRecord(run=run, number=number, operation="drill", state=state, step="", **more)
        self.store.put(f"runs/{run}/{number:06d}.json", record.to_bytes())
        self.store.advance(timedelta(minutes=1))

    def shown(self, source: str | None = None, **more: int) -> list[str]:
        return [each["run"] for each in drills_of(self.store, source, **more)]


@pytest.fixture
def drills() -> Drills:
    return Drills()


def test_each_drill_is_told_by_its_last_record(drills: Drills) -> None:
    run = f"{PREFIX}shop.1"
    drills.write(run, 0)
    drills.write(run, 1, "succeeded", result={"source": "shop", "at": "noon", "equal": True})
    assert drills_of(drills.store) == [
        {"run": run, "ended": "2026-03-01T00:01:00.000000Z", "state": "succeeded", "error": "", "source": "shop",
         "at": "noon", "equal": True}
    ]  # fmt: skip


def test_one_that_failed_says_why_and_one_that_was_killed_runs_on(drills: Drills) -> None:
    error = RunError(type="DamagedError", message="public.orders is not equal", exit_code=4)
    drills.write(f"{PREFIX}shop.1", 1, "failed", error=error, result={"equal": False})
    drills.write(f"{PREFIX}shop.2", 0)
    failed, killed = drills_of(drills.store)
    assert (failed["state"], failed["error"], failed["equal"]) == ("failed", "public.orders is not equal", False)
    assert killed == {"run": f"{PREFIX}shop.2", "ended": killed["ended"], "state": "running", "error": ""}


def test_they_are_in_the_order_in_which_they_ended(drills: Drills) -> None:
    for run in ("z", "b", "a"):
        drills.write(f"{PREFIX}shop.{run}", 0)
    drills.write(f"{PREFIX}shop.b", 1, "succeeded")
    assert drills.shown() == [f"{PREFIX}shop.{run}" for run in ("z", "a", "b")]
    assert drills.shown(most=2) == [f"{PREFIX}shop.{run}" for run in ("a", "b")]
    assert len(drills.shown(most=100)) == 3


def test_no_more_than_twenty_are_read(drills: Drills) -> None:
    for number in range(25):
        drills.write(f"{PREFIX}shop.{number:02d}", 0)
    drills.store.requests.clear()
    assert drills.shown() == [f"{PREFIX}shop.{number:02d}" for number in range(5, 25)]
    assert len(drills.store.requests) == 21


def test_those_of_one_source_are_of_no_other_whose_name_begins_so(drills: Drills) -> None:
    for source in ("shop", "shop_db", "crm"):
        drills.write(f"{PREFIX}{source}.1", 0)
    drills.write("backup-shop.1", 0)
    assert drills.shown("shop") == [f"{PREFIX}shop.1"]
    assert drills.shown("sho") == drills.shown("backup-shop") == []
    assert len(drills.shown()) == 3


def test_without_drills_there_are_none(drills: Drills) -> None:
    assert drills_of(drills.store) == []


def test_a_damaged_record_is_named(drills: Drills) -> None:
    drills.store.put(f"runs/{PREFIX}shop.1/000000.json", b"{")
    with pytest.raises(DamagedError, match=rf"^runs/{PREFIX}shop\.1/000000\.json is damaged or not ours"):
        drills_of(drills.store)


def test_the_last_one_that_went_well_is_read_back_to_and_no_further(drills: Drills) -> None:
    for run, state in (("1", "succeeded"), ("2", "succeeded"), ("3", "failed"), ("4", "running")):
        drills.write(f"{PREFIX}shop.{run}", 0, state)  # type: ignore[arg-type]
    drills.store.requests.clear()
    found = last_good_drill(drills.store, "shop")
    assert found is not None
    assert found["run"] == f"{PREFIX}shop.2"
    assert len(drills.store.requests) == 1 + 3
    assert last_good_drill(drills.store, "shop", most=2) is None
    assert last_good_drill(drills.store, "crm") is None
