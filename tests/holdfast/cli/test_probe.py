"""`holdfast probe`: what it says, what it keeps, and with which code it ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from holdfast.archive import Archive
from holdfast.storage import FolderStore, ObjectStore, StoreDenied, open_store
from holdfast.storage.probe import Budget, probe
from tests.support.jobs.command import RunCommand

BRIEF = Budget(rounds=2, races=2, contenders=4, large_races=0, settle_s=0.0)


@pytest.fixture(autouse=True)
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """Try everything, but not often."""
    monkeypatch.setattr("holdfast.storage.probe.probe", lambda store: probe(store, BRIEF))


def kept(store: ObjectStore) -> list[str]:
    return [info.key for info in store.list("probes/").objects]


def test_a_safe_store_is_told_with_its_figures_and_the_result_is_kept(holdfast: RunCommand, store: ObjectStore) -> None:
    done = holdfast("probe", store.url, "--json")
    assert (done.code, done.value["safe"], done.value["reasons"]) == (0, True, [])
    (key,) = kept(store)
    assert done.value["kept"] == key
    assert json.loads(store.get(key))["findings"] == done.value["findings"]
    said = holdfast("probe", store.url)
    assert said.code == 0
    assert "safe        create if absent: one of up to 4 at once won" in said.out
    assert "its clock: the file system's own times" in said.out
    assert len(kept(store)) == 2


def test_a_place_can_be_probed_before_there_is_an_archive_and_become_one(holdfast: RunCommand, tmp_path: Path) -> None:
    place = open_store(str(tmp_path / "new"))
    assert holdfast("probe", place.url).code == 0
    assert holdfast("init", place.url).code == 0
    assert Archive.open(place).identity.name == "new"
    assert len(kept(place)) == 1


def test_an_unsafe_store_is_refused_with_the_reason_and_the_result_is_kept(
    holdfast: RunCommand, store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FolderStore, "create", FolderStore.put)
    done = holdfast("probe", store.url, "--json")
    assert (done.code, done.value["safe"]) == (5, False)
    assert "create if absent: 4 of 4 concurrent requests succeeded" in done.value["reasons"][0]
    assert "is not safe for an archive: create if absent" in done.err
    assert kept(store) == [done.value["kept"]]


def test_a_store_that_refuses_us_is_a_failure_and_no_verdict(
    holdfast: RunCommand, store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def deny(self: ObjectStore, key: str, body: bytes) -> None:
        raise StoreDenied("not allowed to write")

    monkeypatch.setattr(FolderStore, "put", deny)
    done = holdfast("probe", store.url, "--json")
    assert (done.code, done.value["error"]) == (1, "not allowed to write")
