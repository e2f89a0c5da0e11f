"""The job of vacuum, as the command and the operator start it."""

from __future__ import annotations

from holdfast.storage import ObjectStore
from sparkjobs import truncation, vacuum
from tests.support.archives.maintaining import RunMaintenance, result_of


def test_a_vacuum_deletes_what_was_removed_and_a_dry_run_only_tells_of_it(
    filled: ObjectStore, maintain: RunMaintenance
) -> None:
    result_of(maintain(truncation.main, "truncation", "--keep", "last=2"))
    waiting = result_of(maintain(vacuum.main, "vacuum", "--grace", "24h"))
    assert (waiting["files"], len(waiting["waiting"])) == (0, 2)
    planned = result_of(maintain(vacuum.main, "vacuum", "--grace", "0h", "--dry-run"))
    assert (planned["dry_run"], planned["files"]) == (True, 8)
    done = result_of(maintain(vacuum.main, "vacuum", "--grace", "0h", "--no-orphans"))
    assert (done["files"], sorted(done["blocks"])) == (8, ["b1", "b2"])
    assert {found.key.split("/")[-2] for found in filled.list("data/").objects} == {"b3", "b4"}
