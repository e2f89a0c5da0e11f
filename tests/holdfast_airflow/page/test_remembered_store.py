"""A store that is looked at again and again: what cannot have changed is asked for once."""

from __future__ import annotations

import pytest

from holdfast.archive import Archive
from holdfast.archive.archive import IDENTITY_KEY
from holdfast.storage import ObjectStore
from holdfast_airflow.page import remembered_store
from holdfast_airflow.page.remembered_store import RememberedStore
from tests.support.jobs.steps import SteppedStore, Steps


@pytest.fixture
def requests() -> list[str]:
    return []


@pytest.fixture
def remembered(store: ObjectStore, requests: list[str]) -> RememberedStore:
    found = RememberedStore(SteppedStore(store.bare, Steps(0, "before", requests.append)))
    found.ring()  # whether it is encrypted is asked for once
    requests.clear()
    return found


def names(remembered: RememberedStore, prefix: str) -> list[str]:
    return [info.key.removeprefix("runs/") for info in remembered.list(prefix).objects]


def test_records_of_one_source_are_found_among_those_of_all(
    remembered: RememberedStore, store: ObjectStore, requests: list[str]
) -> None:
    for name in ("drill-a.1", "drill-b.1"):
        store.create(f"runs/{name}/000000.json", b"{}")
    assert names(remembered, "runs/drill-a.") == ["drill-a.1/000000.json"]
    assert len(names(remembered, "runs/drill-")) == 2
    assert requests == ["list runs/drill-"]


def test_what_was_listed_longest_ago_is_listed_first(remembered: RememberedStore, requests: list[str]) -> None:
    prefixes = ["runs/drill-", "runs/break-", "runs/verification/"]
    for prefix in prefixes:
        remembered.list(prefix)
    listed = []
    for _ in range(3):
        requests.clear()
        remembered.begin_look()
        for prefix in prefixes:
            remembered.list(prefix)
        listed.append(requests.copy())
    # A store in a folder is listed twice for its locks, so that one is left for these.
    assert listed == [[f"list {prefix}"] for prefix in prefixes]
    requests.clear()
    remembered.forget()
    assert [names(remembered, prefix) for prefix in prefixes] == [[], [], []]
    assert len(requests) == 3


def test_other_listings_are_made_each_time(remembered: RememberedStore, requests: list[str]) -> None:
    for _ in range(2):
        remembered.list("commits/")
        remembered.list("runs/backup-shop_db.1/")
        remembered.list("runs/drill-", most=1)
    assert len(requests) == 6


def test_a_record_is_read_once_and_a_commit_each_time(
    remembered: RememberedStore, store: ObjectStore, requests: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remembered_store, "_MOST_DOCUMENTS", 1)
    store.create("runs/a/000000.json", b"{}")
    store.create("runs/b/000000.json", b"{}")
    one, other = "runs/a/000000.json", "runs/b/000000.json"
    for key in (one, one, other, one, IDENTITY_KEY, IDENTITY_KEY):
        remembered.get(key)
    asked = (one, other, one, IDENTITY_KEY, IDENTITY_KEY)
    assert requests == [f"get {key}" for key in asked]


def test_the_stores_time_is_that_of_the_last_listing(remembered: RememberedStore, requests: list[str]) -> None:
    Archive.open(remembered)
    asked = len(requests)
    at = remembered.list("commits/").now
    assert remembered.list(IDENTITY_KEY).now == at
    assert len(requests) == asked + 1
