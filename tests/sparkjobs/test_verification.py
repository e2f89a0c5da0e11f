"""The job of verification, as the command and the operator start it."""

from __future__ import annotations

import pytest

from holdfast.archive import Archive
from holdfast.storage import ObjectStore
from locking import RWLock, inspect
from sparkjobs import verification
from tests.support.archives.maintaining import RunMaintenance, result_of


def test_a_verification_reads_all_files_and_goes_on_where_it_ended(
    filled: ObjectStore, maintain: RunMaintenance
) -> None:
    whole = result_of(maintain(verification.main, "verification", "--deep"))
    assert (whole["files"], whole["damage"], whole["costs"], whole["deep"]) == (16, [], [], True)
    assert whole["read_since"] is not None
    part = result_of(maintain(verification.main, "verification", "--deep", "--new", "--budget", "1B"))
    assert (part["files"], part["commits"]) == (1, 4)
    assert [info.resource for info in inspect(filled)] == []


@pytest.mark.service
def test_damage_is_told_with_what_it_costs_and_fails_no_job(filled: ObjectStore, maintain: RunMaintenance) -> None:
    path = next(found.key for found in filled.list("data/shop/1/snapshot/b2/").objects)
    filled.put(path, filled.get(path)[:-1] + b"?")
    found = result_of(maintain(verification.main, "verification", "--deep"))
    (said,) = found["damage"]
    assert path in said
    (costs,) = found["costs"]
    assert (costs["file"], costs["table"], costs["source"], costs["commit"]) == (path, "public.orders", "shop", 2)
    assert [(each["first"], each["last"], each["points"]) for each in costs["needed_for"]] == [
        ("commit:2", "commit:2", 1)
    ]
    assert len(Archive.open(filled).state.blocks) == 4


def test_a_look_at_sizes_needs_no_spark_and_waits_for_a_vacuum(
    filled: ObjectStore, maintain: RunMaintenance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verification, "WAIT_S", 0)
    found = result_of(maintain(verification.main, "verification"))
    assert (found["files"], found["damage"]) == (16, [])
    with RWLock(filled, "history").write(purpose="vacuum", wait=0):
        code, record = maintain(verification.main, "verification", "--new")
    assert (code, record.state) == (3, "failed")
    assert record.error is not None
    assert "history" in record.error.message
