"""What the coordination store answers to a sequential read; the reads themselves are in test_consistent_read.py."""

from __future__ import annotations

import logging

import pytest

from holdfast.common.errors import BusyError, UsageError
from holdfast.replication.log import schema
from holdfast.replication.log.errors import LostReplicaError, OldStoreError
from holdfast.replication.log.quorum import counted
from holdfast.replication.log.replicas import replicas
from holdfast.replication.log.sequential import SequentialAnswer, ask
from holdfast.replication.log.settings import QuorumRequest
from holdfast.replication.work import membership
from holdfast.storage import ObjectStore, open_store
from locking.store import StoreUnavailable
from tests.support.replicas.replicated import Replicas, nothing

pytestmark = pytest.mark.slow


def asked(given: Replicas, name: str, *away: str) -> SequentialAnswer:
    """Ask as who has opened a replica; the places of others are away."""
    missing = {given.place(each).url: each for each in away}

    def places(url: str) -> ObjectStore:
        if url in missing:
            raise StoreUnavailable(f"{missing[url]} is away")
        return open_store(url)

    return ask(given.coordination, given.archive, given.place(name).url, given.place_of(name), places)


def pending(given: Replicas, name: str) -> str:
    """Make a backup that waits for its quorum; return its block."""
    archive = given.open(name)
    archive.quorum_request = QuorumRequest(2)
    archive.add(given.backup(archive.store), check=nothing, fence=None)
    return given.backups[-1]


def test_one_may_be_behind_as_far_as_nothing_of_it_has_succeeded(two: Replicas) -> None:
    two.back_up("near")
    two.back_up("near")
    assert (asked(two, "far").behind, asked(two, "near").behind) == (2, 0)


def test_one_that_lacks_what_has_succeeded_is_refused_with_those_that_can_be_read(three: Replicas) -> None:
    pending(three, "near")
    three.sync("far")
    three.sync("near")
    with pytest.raises(BusyError) as caught:
        asked(three, "off")
    assert str(caught.value).startswith(
        f"replica off ends at entry 0, and a sequential read needs 2; far ({three.place('far').url}), near "
        f"({three.place('near').url}) can be read. 'holdfast replica sync off' brings it there"
    )


def test_of_what_was_trimmed_nobody_knows_whether_it_had_failed(two: Replicas) -> None:
    two.back_up("near")
    two.coordination.run(lambda c: c.execute(schema.archives.update().values(log_start=2)))
    with pytest.raises(BusyError, match="replica far ends at entry 0, and a sequential read needs 1"):
        asked(two, "far")


def test_too_few_readable_ones_can_contradict_nothing(three: Replicas, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING), pytest.raises(BusyError) as caught:
        asked(three, "near", "far", "off")
    assert str(caught.value).startswith("a sequential read is not possible now: ")
    assert str(caught.value).endswith(". --consistency eventual reads without that")
    assert "replica far (" in caplog.text


def test_one_of_three_may_be_away_and_is_named(three: Replicas) -> None:
    [left] = asked(three, "near", "off").not_asked
    assert (left.replica, left.url) == ("off", three.place("off").url)
    assert "off is away" in left.why


def test_an_addition_that_was_stopped_takes_away_no_tolerance(three: Replicas) -> None:
    membership.add(three.coordination, three.archive, "new", three.place("new").url)
    assert [each.replica for each in asked(three, "near", "off").not_asked] == ["off"]
    three.recover("new")
    with pytest.raises(BusyError, match="3 of the 4 replicas have to be readable"):
        asked(three, "near", "off", "new")


def test_one_whose_votes_do_not_count_yet_is_waited_for(two: Replicas) -> None:
    """An older copy of the store does not know that they count by now."""
    membership.add(two.coordination, two.archive, "new", two.place("new").url)
    two.recover("new")
    rows = two.coordination.run(lambda c: replicas(c, two.archive))
    assert [row.name for row in counted(rows, 2)] == ["far", "near"]
    with pytest.raises(BusyError, match="2 of the 3 replicas have to be readable"):
        asked(two, "near", "far", "new")
    two.sync("far")
    two.sync("near")
    rows = two.coordination.run(lambda c: replicas(c, two.archive))
    assert [row.name for row in counted(rows, 2)] == ["far", "near", "new"]


def test_only_replicas_that_count_make_another_one_count(two: Replicas) -> None:
    """Else two that were added could acknowledge what no replica of an older copy of the store has."""
    for name in ("new", "newer"):
        membership.add(two.coordination, two.archive, name, two.place(name).url)
    for name in ("new", "newer"):
        two.recover(name)
    two.sync("near")
    two.sync("new")
    rows = two.coordination.run(lambda c: replicas(c, two.archive))
    assert [row.name for row in counted(rows, 2)] == ["far", "near"]
    two.sync("far")
    rows = two.coordination.run(lambda c: replicas(c, two.archive))
    assert [row.name for row in counted(rows, 2)] == ["far", "near", "new", "newer"]


def test_a_lost_one_and_one_that_contradicts_the_store_are_refused(two: Replicas) -> None:
    place = two.place_of("near")
    two.lose("near")
    with pytest.raises(LostReplicaError, match="it was away"):
        asked(two, "near")
    two.change("near", is_lost=False)
    other = place.model_copy(update={"store": "another"})
    with pytest.raises(OldStoreError, match="follows the log of store another"):
        ask(two.coordination, two.archive, two.place("near").url, other, open_store)
    with pytest.raises(UsageError):
        ask(two.coordination, two.archive, two.place("far").url, place, open_store)
