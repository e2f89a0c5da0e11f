"""Truncation and vacuum of an archive with replicas, by command."""

from __future__ import annotations

import pytest

from holdfast.replication.log.settings import QuorumRequest
from holdfast.replication.log.store import ENVIRONMENT
from holdfast.replication.work.leading import leading
from tests.support.jobs.command import RunCommand
from tests.support.replicas.replicated import Replicas, nothing


def test_a_truncation_through_one_replica_comes_to_the_other_and_both_are_vacuumed(
    holdfast: RunCommand, two: Replicas
) -> None:
    two.back_up("near")
    near, far = (str(two.folder / name) for name in ("near", "far"))
    assert holdfast("truncate", near, "--keep", "last=1").code == 0
    done = holdfast("vacuum", near, "--grace", "0h")
    assert done.code == 0
    assert "removed blocks that replicas may still need: 1; waiting for a sync of far" in done.out
    assert holdfast("vacuum", near, "--grace", "0h", "--dry-run", "--json").value["awaited"] == [
        {"block": two.backups[0], "replicas": ["far"]}
    ]
    assert holdfast("replica", "sync", "--all").code == 0
    for url in (near, far):
        assert holdfast("vacuum", url, "--grace", "0h", "--json").value["blocks"] == [two.backups[0]]


def test_a_replica_is_truncated_only_while_no_other_one_leads(holdfast: RunCommand, two: Replicas) -> None:
    two.back_up("near")
    far = str(two.folder / "far")
    with leading(two.open("near")):
        done = holdfast("truncate", far, "--keep", "last=1")
    assert (done.code, "replica near leads: compactions and truncations go through it" in done.err) == (3, True)
    assert holdfast("truncate", far, "--keep", "last=1").code == 0


def test_a_dry_run_plans_without_what_may_be_taken_back_as_the_real_run_does(
    holdfast: RunCommand, two: Replicas
) -> None:
    archive = two.open("near")
    archive.quorum_request = QuorumRequest(2)
    archive.add(two.backup(archive.store), check=nothing, fence=None)
    near = str(two.folder / "near")
    planned = holdfast("truncate", near, "--keep", "last=1", "--dry-run", "--json").value
    done = holdfast("truncate", near, "--keep", "last=1", "--json").value
    assert planned["blocks_removed"] == done["blocks_removed"] == 0
    assert len(two.state("near").blocks) == 2


@pytest.mark.parametrize(
    "command",
    [
        ("truncate", "--keep", "last=1"),
        ("truncate", "--keep", "last=1", "--dry-run"),
        ("compact", "--dry-run"),
        ("vacuum",),
        ("vacuum", "--dry-run"),
    ],
)
def test_maintenance_of_a_replica_says_what_is_missing_where_nobody_knows_the_store(
    holdfast: RunCommand, two: Replicas, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    monkeypatch.delenv(ENVIRONMENT)
    done = holdfast(command[0], str(two.folder / "near"), *command[1:])
    assert (done.code, "say where the coordination store is: --store, HOLDFAST_STORE" in done.err) == (2, True)
    assert two.is_whole("near")
