"""The job of truncation, as the command and the operator start it."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.archive import Archive
from holdfast.replication.log.replicas import add
from holdfast.replication.log.settings import QuorumRequest
from holdfast.replication.log.store import ENVIRONMENT, CoordinationStore
from holdfast.replication.work.membership import begin_membership
from holdfast.replication.work.replica import ReplicatedArchive
from holdfast.storage import ObjectStore
from sparkjobs import truncation
from tests.support.archives.maintaining import RunMaintenance, back_up, result_of


def test_a_truncation_is_one_commit_that_a_dry_run_only_tells_of(filled: ObjectStore, maintain: RunMaintenance) -> None:
    ran = maintain(truncation.main, "truncation", "--keep", "last=2", "--dry-run")
    planned = result_of(ran)
    assert (planned["dry_run"], planned["commit"], planned["blocks_removed"]) == (True, None, 2)
    assert len(Archive.open(filled).state.blocks) == 4
    assert ran[1].said[0] == "shop, 2026-03-02T12:00:00.000000Z to 2026-03-03T12:00:00.000000Z: 2 restore points, goes"
    assert all("1 restore points, stays: " in line for line in ran[1].said[1:])
    done = result_of(maintain(truncation.main, "truncation", "--keep", "last=2"))
    assert (done["dry_run"], done["commit"], done["blocks_removed"], done["keep"]) == (False, 5, 2, "last=2")
    assert set(Archive.open(filled).state.blocks) == {"b3", "b4"}
    again = result_of(maintain(truncation.main, "truncation", "--keep", "last=2", "--source", "shop"))
    assert (again["commit"], again["blocks_removed"]) == (None, 0)


def test_a_dry_run_of_a_truncation_plans_without_what_may_be_taken_back(
    filled: ObjectStore, maintain: RunMaintenance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = f"sqlite:///{tmp_path}/coordination.db"
    monkeypatch.setenv(ENVIRONMENT, address)
    with CoordinationStore.open(address) as coordination:
        begin_membership(coordination, filled, "near")
        coordination.run(lambda c: add(c, Archive.open(filled).identity.id, name="far", url="nowhere"))
        near = ReplicatedArchive.begin(filled, coordination)
        near.quorum_request = QuorumRequest(2)
        back_up(filled, 5, near)
    for dry_run in (["--dry-run"], []):
        done = result_of(maintain(truncation.main, "truncation", "--keep", "last=2", *dry_run))
        assert done["blocks_removed"] == 2


@pytest.mark.parametrize(("rules", "code"), [([], 5), (["--keep", "last=0"], 5), (["--keep", "often=3"], 2)])
def test_a_truncation_that_cannot_be_meant_is_refused(maintain: RunMaintenance, rules: list[str], code: int) -> None:
    found, record = maintain(truncation.main, "truncation", *rules)
    assert (found, record.state) == (code, "failed")
    assert record.error is not None
    assert record.error.exit_code == code
