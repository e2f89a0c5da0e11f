"""The records of an archive's drills, as they are shown."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import pytest

from holdfast.archive.format.runs import RunError, RunRecord
from holdfast.drill.history import PREFIX, drill_standing, drills_of
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


def test_a_damaged_record_is_named_and_counts_for_nothing(drills: Drills, caplog: pytest.LogCaptureFixture) -> None:
    drills.store.put(f"runs/{PREFIX}shop.1/000000.json", b"{")
    drills.write(f"{PREFIX}shop.2", 0)
    assert drills.shown() == [f"{PREFIX}shop.2"]
    assert f"runs/{PREFIX}shop.1/000000.json is damaged or not ours" in caplog.text


def test_the_last_one_that_went_well_is_read_back_to_and_no_further(drills: Drills) -> None:
    for run, state in (("1", "succeeded"), ("2", "succeeded"), ("3", "failed"), ("4", "running")):
        drills.write(f"{PREFIX}shop.{run}", 0, state)  # type: ignore[arg-type]
    drills.store.requests.clear()
    found = drill_standing(drills.store, "shop")
    assert found.good is not None
    assert found.good["run"] == f"{PREFIX}shop.2"
    assert len(drills.store.requests) == 1 + 3
    assert drill_standing(drills.store, "shop", most=2).good is None
    assert drill_standing(drills.store, "crm") == (None, "")


def test_the_newest_one_that_has_ended_counts_good_or_bad(drills: Drills) -> None:
    drills.write(f"{PREFIX}shop.1", 0, "succeeded")
    error = RunError(type="DamagedError", message="public.orders is not equal", exit_code=4)
    drills.write(f"{PREFIX}shop.2", 0, "failed", error=error)
    drills.write(f"{PREFIX}shop.3", 0)
    assert drill_standing(drills.store, "shop").failure == "public.orders is not equal"
    drills.write(f"{PREFIX}shop.4", 0, "succeeded")
    assert drill_standing(drills.store, "shop").failure == ""


@pytest.mark.parametrize("how", ["said", "stored"])
def test_one_of_a_time_to_come_is_named_and_counts_for_nothing(
    drills: Drills, caplog: pytest.LogCaptureFixture, how: str
) -> None:
    run = f"{PREFIX}shop.1"
    if how == "said":
        drills.write(run, 0, "succeeded", at=datetime(2027, 1, 1, tzinfo=UTC))
    else:
        drills.store.advance(timedelta(days=300))
        drills.write(run, 0, "succeeded")
        drills.store.advance(timedelta(days=-300))
    assert drill_standing(drills.store, "shop").good is None
    assert f"runs/{run}/000000.json is of 202" in caplog.text
    assert "which is still to come. It counts for nothing" in caplog.text


def test_one_that_was_stored_again_is_as_old_as_it_says(drills: Drills) -> None:
    at = drills.store.now
    drills.write(f"{PREFIX}shop.1", 0, "succeeded", at=at)
    drills.store.advance(timedelta(days=30))
    drills.write(f"{PREFIX}shop.1", 0, "succeeded", at=at)
    good = drill_standing(drills.store, "shop").good
    assert good is not None
    assert good["ended"] == "2026-03-01T00:00:00.000000Z"
