"""Who may back up a source: one replica at a time, and whose lease is over."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict, replace

import pytest

from holdfast.common.errors import BusyError
from holdfast.replication.log import schema, source_lease
from holdfast.replication.log.replicas import Acting, replica
from holdfast.replication.log.source_lease import SourceLease, take_source
from locking import Owner
from tests.support.replicas.replicated import Replicas

pytestmark = pytest.mark.slow


def acting(two: Replicas, name: str) -> Acting:
    return two.open(name).in_use()[1]


def test_a_source_is_backed_up_through_one_replica_at_a_time(two: Replicas) -> None:
    run, near, far = two.coordination.run, acting(two, "near"), acting(two, "far")
    run(lambda c: source_lease.take_source(c, near, "shop_db", "first"))
    said = r"shop_db is being backed up by near, run first \(process \d+ on .*\), whose lease ends in"
    with pytest.raises(BusyError, match=said):
        run(lambda c: source_lease.take_source(c, far, "shop_db", "other"))
    run(lambda c: source_lease.release_source(c, near, "shop_db", "first"))
    run(lambda c: source_lease.take_source(c, far, "shop_db", "other"))


def test_what_a_killed_run_left_does_not_keep_the_next_one_of_its_replica_waiting(two: Replicas) -> None:
    run, near, far = two.coordination.run, acting(two, "near"), acting(two, "far")
    run(lambda c: source_lease.take_source(c, near, "shop_db", "killed"))
    run(lambda c: source_lease.take_source(c, near, "shop_db", "next"))
    run(lambda c: source_lease.release_source(c, near, "shop_db", "killed"))  # it is not that one's any more
    with pytest.raises(BusyError, match="by near, run next"):
        run(lambda c: source_lease.take_source(c, far, "shop_db", "other"))


def gone() -> Owner:
    """A process of this machine that has certainly ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return replace(Owner().here(), pid=process.pid, process_start=1)


def note_process(two: Replicas, owner: Owner) -> None:
    process = json.dumps(asdict(owner))
    two.coordination.run(lambda c: c.execute(schema.sources.update().values(process=process)))


def test_a_process_proved_gone_keeps_nobody_waiting(two: Replicas) -> None:
    run, near, far = two.coordination.run, acting(two, "near"), acting(two, "far")
    run(lambda c: source_lease.take_source(c, near, "shop_db", "killed"))
    note_process(two, replace(gone(), boot_id="another"))
    with pytest.raises(BusyError, match="by near, run killed"):
        run(lambda c: source_lease.take_source(c, far, "shop_db", "other"))
    note_process(two, gone())
    (lease,) = run(lambda c: source_lease.source_leases(c, two.archive))
    assert "its process is gone" in lease.words(0.0)
    run(lambda c: source_lease.take_source(c, far, "shop_db", "other"))
    (lease,) = run(lambda c: source_lease.source_leases(c, two.archive))
    assert (lease.replica, lease.run, lease.value(0.0)["process"]) == ("far", "other", "running")


@pytest.mark.parametrize("words", ["", "no JSON", '{"newer": 1}', "[]"])
def test_a_process_that_is_not_known_keeps_its_lease(two: Replicas, words: str) -> None:
    run, near, far = two.coordination.run, acting(two, "near"), acting(two, "far")
    run(lambda c: source_lease.take_source(c, near, "shop_db", "first"))
    run(lambda c: c.execute(schema.sources.update().values(process=words)))
    with pytest.raises(BusyError, match=r"by near, run first, whose lease"):
        run(lambda c: source_lease.take_source(c, far, "shop_db", "other"))


def test_a_backup_keeps_its_replica_active(two: Replicas) -> None:
    _, acting = two.open("near").in_use()
    two.coordination.run(lambda c: c.execute(schema.replicas.update().values(active_until=0.0)))
    two.coordination.run(lambda c: take_source(c, acting, "shop_db", "run"))
    row = two.coordination.run(lambda c: replica(c, two.archive, "near"))
    assert (row.epoch, row.active_until > 0) == (acting.epoch, True)


def test_a_lease_is_told_with_its_process_and_its_end() -> None:
    mine = Owner().here()
    held = SourceLease("shop_db", "near", "run-1", 100.0, mine)
    assert held.keeps_out(99.0)
    assert not held.keeps_out(100.0)
    assert held.describe() == f"shop_db is being backed up by near, run run-1 ({mine.describe()})"
    assert held.words(40.0) == f"{held.describe()}; its lease ends in 60 s unless renewed"
    assert held.words(100.0) == f"{held.describe()}: its lease is over"
    value = held.value(99.95)
    assert (value["source"], value["replica"], value["run"], value["process"]) == (
        "shop_db",
        "near",
        "run-1",
        "running",
    )
    assert (value["expires_in_s"], held.value(200.0)["expires_in_s"]) == (0.0, 0.0)
    assert held.value(88.0)["expires_in_s"] == 12.0


def test_a_source_that_was_never_backed_up_has_no_ends_and_a_known_one_has_its_own(two: Replicas) -> None:
    run, near = two.coordination.run, acting(two, "near")
    assert run(lambda c: take_source(c, near, "new_db", "run")) == ("", "")
    end, _ = run(lambda c: take_source(c, near, "shop_db", "run"))
    assert end == two.state("near").ends["shop_db"]
    assert [each.source for each in run(lambda c: source_lease.source_leases(c, two.archive))] == ["new_db", "shop_db"]
    run(lambda c: source_lease.release_source(c, near, "new_db", "run"))
    assert run(lambda c: source_lease.source_lease(c, two.archive, "new_db")) is None
    assert run(lambda c: source_lease.source_lease(c, two.archive, "shop_db")) is not None
