"""An archive as it is now: opened once, and read on by its new commits."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from bench.support.blocks import make_block
from holdfast.archive import Archive
from holdfast.archive.format.runs import RunLog
from holdfast.common.errors import UsageError
from holdfast.config.archives_yaml import find_archive
from holdfast.storage import ObjectStore
from holdfast.storage.url import open_url
from holdfast_airflow.page.opened import OpenedArchive, growth
from locking import LockBusy, RWLock
from tests.support.archives.blocks_without_rows import add
from tests.support.jobs.steps import SteppedStore, Steps

NOW = datetime.now(UTC)


@pytest.fixture
def opened(store: ObjectStore) -> OpenedArchive:
    return OpenedArchive(find_archive("shop"))


def back_up(store: ObjectStore, number: int, *, hours_ago: float = 1, source: str = "shop_db") -> None:
    at = NOW - timedelta(hours=hours_ago)
    add(Archive.open(store), make_block(identity=f"b{number}", source=source, position=f"0/{number}00", at=at))


def test_what_was_opened_is_read_on_by_its_new_commits(opened: OpenedArchive, store: ObjectStore) -> None:
    first = opened.refreshed()
    back_up(store, 1)
    again = opened.refreshed()
    assert again is first
    assert again.state.sequence == 1


def test_the_record_of_now_has_locks_holds_and_growth(opened: OpenedArchive, store: ObjectStore) -> None:
    back_up(store, 1)
    made = opened.hold("shop_db", "latest", reason="a move", user="olga")
    with RWLock(store, "maintenance").write(purpose="vacuum"):
        told = opened.now()
    assert told["record"]["name"] == "shop"
    assert [each["resource"] for each in told["locks"]] == ["maintenance"]
    assert [(each["hold"], each["owner"]) for each in told["holds"]] == [(made["hold"], "olga")]
    assert (told["breaks"], told["drills"], len(told["growth"])) == ([], [], 1)
    assert opened.release(made["hold"], reason="moved", user="olga") == {"hold": made["hold"]}
    assert opened.now()["holds"] == []


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Requests to the store, each as it begins."""
    made: list[str] = []
    steps = Steps(0, "before", made.append)

    def open_counted(url: str) -> ObjectStore:
        counted = SteppedStore(open_url(url), steps)
        counted.listing_is_ordered = True  # as of the known clouds
        return counted

    monkeypatch.setattr("holdfast_airflow.page.opened.open_url", open_counted)
    return made


def test_a_look_takes_four_requests_however_much_there_is(
    opened: OpenedArchive, store: ObjectStore, requests: list[str]
) -> None:
    for number, source in enumerate(("shop_db", "crm", "books"), 1):
        back_up(store, number, source=source)
        with RunLog(store, f"drill-{source}.2026030{number}T120000Z.a", "drill"):
            pass
    opened.break_lock(RWLock(store, "maintenance").write(purpose="vacuum").txn, reason="it burnt down", user="olga")
    with RWLock(store, "format").read(purpose="copy"):
        opened.now()
        for _ in range(3):
            requests.clear()
            told = opened.now()
            assert len(requests) <= 4, requests
            opened.line("shop_db", None, None, 100, told["record"]["commits"])
            assert len(requests) <= 4, requests
    assert (len(told["drills"]), len(told["breaks"]), len(told["locks"])) == (3, 1, 1)


def test_what_comes_meanwhile_is_seen_two_looks_later(
    opened: OpenedArchive, store: ObjectStore, requests: list[str]
) -> None:
    opened.now()
    with RunLog(store, "drill-shop_db.20260301T120000Z.a", "drill"):
        pass
    back_up(store, 1)
    assert opened.now()["record"]["commits"] == 1
    assert [each["state"] for each in opened.now()["drills"]] == ["succeeded"]


def test_the_newest_drill_comes_first(opened: OpenedArchive, store: ObjectStore) -> None:
    runs = ["drill-shop_db.20260301T120000Z.a", "drill-shop_db.20260302T120000Z.b"]
    for run in runs:
        with RunLog(store, run, "drill"):
            pass
    for _ in range(2):
        assert [each["run"] for each in opened.now()["drills"]] == runs[::-1]


def test_a_hold_waits_for_nobody(opened: OpenedArchive, store: ObjectStore) -> None:
    back_up(store, 1)
    with RWLock(store, "format").write(purpose="migration"), pytest.raises(LockBusy, match="for migration"):
        opened.hold("shop_db", "latest", reason="x", user="olga")
    assert Archive.open(store).state.holds == {}


def test_a_line_is_made_anew_only_where_something_came(opened: OpenedArchive, store: ObjectStore) -> None:
    back_up(store, 1, hours_ago=5)
    first = opened.line("shop_db", None, None, 100)
    assert first["now"] > NOW.isoformat()[:10]
    again = opened.line("shop_db", None, None, 100)
    assert {**again, "now": ""} == {**first, "now": ""}
    back_up(store, 2)
    assert {**opened.line("shop_db", None, None, 100), "now": ""} != {**first, "now": ""}
    with pytest.raises(UsageError):
        opened.line("crm", None, None, 100)


def test_the_newest_record_of_each_run_is_told_with_its_rate(opened: OpenedArchive, store: ObjectStore) -> None:
    log = RunLog(store, "backup-1", "backup")
    log.progress("reading tables")
    log.progress("committing")
    told = opened.progress(["backup-1", "gone"])
    assert told["gone"] is None
    found = told["backup-1"]
    assert found is not None
    assert (found["run"], found["step"], found["state"], found["error"]) == ("backup-1", "committing", "running", "")
    assert found["bytes_per_s"] == 0


@pytest.mark.parametrize(
    ("ages", "sizes"),
    [
        ([], []),
        ([3], [1]),
        ([5, 5, 5], [3]),
        ([600, 300, 0], [1, 2, 3]),
        ([600, 599.9, 0], [2, 3]),
    ],
    ids=["nothing", "one", "all at once", "apart", "in one span"],
)
def test_growth_adds_up_what_is_there_by_spans_of_time(store: ObjectStore, ages: list[float], sizes: list[int]) -> None:
    for number, age in enumerate(ages, 1):
        back_up(store, number, hours_ago=age)
    state = Archive.open(store).state
    each = {placed.size for placed in state.blocks.values()}
    assert len(each) <= 1
    found: list[dict[str, Any]] = growth(state)
    assert [told["bytes"] for told in found] == [size * next(iter(each)) for size in sizes]
    assert [told["at"] for told in found] == sorted(told["at"] for told in found)
