"""Replicas are added and removed by entries that count once enough of those before have executed them."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.common.errors import BusyError, RefusedError
from holdfast.replication.log import log
from holdfast.replication.log.members import leave
from holdfast.replication.log.store import CoordinationStore
from holdfast.replication.work import members
from holdfast.replication.work.recovery import recover
from tests.support.replicas.rebuilt import away, joined
from tests.support.replicas.replicated import Replicas, nothing

pytestmark = pytest.mark.slow


def test_of_one_that_is_removed_and_away_it_is_said_what_nothing_can_tell(three: Replicas) -> None:
    away(three, "off")
    words = members.remove(three.coordination, three.archive, "off")
    assert words.startswith("off could not record that it was removed (there is no archive at ")
    assert words.endswith("/off alone, nothing would tell")


def test_no_new_replica_is_made_before_its_addition_counts(three: Replicas) -> None:
    away(three, "far", "off")
    with pytest.raises(BusyError, match="entry 1, which says which replicas shop has, counts once 1 of far, off"):
        members.add(three.coordination, three.archive, "new", three.place("new").url)
    with pytest.raises(BusyError, match="counts once 1 of far, off has executed it"):
        recover(three.coordination, three.archive, "new")
    assert not (three.folder / "new" / "archive.json").exists()
    away(three, "off", back=True)
    joined(three, "new")
    for name in ("near", "off", "new"):
        assert three.place_of(name).members.keys() == {"far", "near", "off", "new"}


def test_a_removal_goes_on_where_it_was_not_over(three: Replicas) -> None:
    away(three, "near", "far")
    with pytest.raises(BusyError, match="counts once 1 of far, near has executed it"):
        members.remove(three.coordination, three.archive, "off")
    away(three, "near", "far", back=True)
    assert members.remove(three.coordination, three.archive, "off") == ""
    (entry,) = three.coordination.run(lambda c: log.entries(c, three.archive, 1))
    assert entry.change.members.keys() == {"far", "near"}
    assert three.sync("far").index == 1


def test_the_last_replica_leaves_no_entry(tmp_path: Path, coordination: CoordinationStore) -> None:
    given = Replicas.begun(tmp_path, coordination)
    assert members.remove(coordination, given.archive, "near", force=True) == ""
    assert given.state("near").blocks


def test_nothing_is_added_through_a_replica_that_is_being_removed(three: Replicas) -> None:
    far = three.open("far")
    plan = three.backup(far.store)
    three.coordination.run(lambda c: leave(c, three.archive, "far", force=False))
    with pytest.raises(RefusedError, match="replica far is being removed: nothing is added through it any more"):
        far.add(plan, check=nothing, fence=None)
