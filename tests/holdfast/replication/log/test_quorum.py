"""Backups that count once several replicas hold them: how that comes about, and how it is taken back."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sqlalchemy import Connection

from holdfast.archive.format.model import ArchiveCommit, Hold
from holdfast.archive.format.state import Change
from holdfast.common.errors import BusyError
from holdfast.replication.log import log, quorum, schema, trimming
from holdfast.replication.log.errors import QuorumFailedError
from holdfast.replication.log.quorum import Quorum
from holdfast.replication.log.replicas import log_state, mark_lost, replicas
from holdfast.replication.log.settings import QuorumRequest
from tests.support.replicas.quorums import overdue
from tests.support.replicas.replicated import Replicas, nothing

pytestmark = pytest.mark.slow

HOUR = QuorumRequest(2, 3600.0)


def begin(
    three: Replicas, name: str = "near", source: str = "shop_db", quorum_request: QuorumRequest = HOUR
) -> ArchiveCommit:
    """Make a backup that needs a quorum, and wait for nothing."""
    archive = three.open(name)
    archive.quorum_request = quorum_request
    return archive.add(three.backup(archive.store, source), check=nothing, fence=None)


def stands(three: Replicas, block: str) -> Quorum:
    found = three.coordination.run(lambda c: quorum.of_block(c, three.archive, block))
    assert found is not None
    return found


def ends(three: Replicas, source: str = "shop_db") -> tuple[str, str]:
    return three.coordination.run(lambda c: log.ends_of(c, three.archive, source))


def pointers(three: Replicas) -> dict[str, int]:
    rows = three.coordination.run(lambda c: replicas(c, three.archive))
    return {row.name: row.pointer for row in rows}


def test_it_succeeds_with_the_replica_that_completes_the_number(three: Replicas) -> None:
    block = begin(three).add[0].id
    assert (stands(three, block).state, stands(three, block).votes) == ("pending", ("near",))
    three.sync("near")
    assert stands(three, block).state == "pending"  # its own word counts once
    assert three.coordination.run(lambda c: log_state(c, three.archive)).quorum == 0
    three.sync("off")
    found = stands(three, block)
    assert (found.state, found.votes, found.acknowledged_by) == ("committed", ("near", "off"), 2)
    assert three.coordination.run(lambda c: log_state(c, three.archive)).quorum == 2


def test_it_is_settled_once_as_many_know_that_it_has_succeeded(three: Replicas) -> None:
    block = begin(three).add[0].id
    three.sync("off")
    found = stands(three, block)
    assert (found.executed_by, found.is_settled) == (("off",), False)
    assert three.coordination.run(lambda c: quorum.unsettled(c, three.archive, "shop_db")) == [found]
    assert three.coordination.run(lambda c: quorum.unsettled(c, three.archive, "other_db")) == []
    three.sync("near")
    assert (stands(three, block).executed_by, stands(three, block).is_settled) == (("near", "off"), True)
    assert [three.place_of(name).acknowledged for name in ("near", "off", "far")] == [2, 2, 0]
    assert three.state("near").min_writer == 4
    three.lose("off")
    assert stands(three, block).executed_by == ("near",)


def test_what_an_earlier_release_had_succeed_is_settled(three: Replicas) -> None:
    block = begin(three).add[0].id
    old = schema.quorums.update().values(state="committed")
    three.coordination.run(lambda c: c.execute(old))
    assert stands(three, block).is_settled


def test_nothing_of_a_source_is_appended_while_its_last_backup_is_pending(three: Replicas) -> None:
    begin(three, quorum_request=replace(HOUR, size=3))
    with pytest.raises(BusyError, match=r"the last backup of shop_db still waits for its quorum: entry 1 .* 2 of 3"):
        three.back_up("far")  # which has executed the entry before
    three.sync("off")
    assert three.back_up("far") == 3


def test_quorums_of_two_sources_are_pending_at_once_and_decided_in_any_order(three: Replicas) -> None:
    first, second = begin(three).add[0].id, begin(three, "far", "other_db").add[0].id
    # To make the second one, `far` has executed the first one, too.
    assert [stands(three, block).state for block in (first, second)] == ["committed", "pending"]
    third = begin(three, "far", quorum_request=replace(HOUR, size=3)).add[0].id
    three.sync("off")
    assert [stands(three, block).state for block in (second, third)] == ["committed", "pending"]
    assert three.coordination.run(lambda c: log_state(c, three.archive)).quorum == stands(three, second).acknowledged_by
    three.sync("near")
    assert stands(three, third).state == "committed"
    assert three.coordination.run(lambda c: log_state(c, three.archive)).quorum == stands(three, third).acknowledged_by


def test_one_that_fails_is_taken_back_and_every_replica_is_as_if_it_had_not_been(three: Replicas) -> None:
    before, was = three.state("near"), ends(three)
    block = begin(three, quorum_request=replace(HOUR, size=3)).add[0].id
    three.sync("far")
    before_it = pointers(three)
    overdue(three)
    failed = three.coordination.run(lambda c: log.fail_overdue(c, three.archive, by="far", unread=()))
    assert [each.block for each in failed] == [block]
    assert stands(three, block).state == "failed"
    assert ends(three) == was
    assert pointers(three) == before_it  # who has not come to the entry yet is still to pass it
    for name in ("near", "far", "off"):
        three.sync(name)
        state = three.state(name)
        assert (state.blocks.keys(), state.ends, state.streams) == (before.blocks.keys(), before.ends, before.streams)
        assert three.is_whole(name)
    assert three.coordination.run(lambda c: log.fail_overdue(c, three.archive, by="far", unread=())) == []


def test_who_comes_to_a_failed_entry_passes_it_without_its_files(three: Replicas) -> None:
    block = begin(three).add[0]
    for file in block.files():
        three.place("near").delete(file.path)
    overdue(three)
    assert three.sync("far").entries == 2
    kinds = [commit.kind for commit in three.open("far").commits()]
    assert kinds[-2:] == ["failed", "drop"]


def test_the_word_of_a_replica_that_was_lost_since_does_not_count(three: Replicas) -> None:
    block = begin(three, quorum_request=replace(HOUR, size=3)).add[0].id
    three.sync("far")
    three.coordination.run(lambda c: mark_lost(c, three.archive, "far", "rot"))
    three.sync("off")
    assert (stands(three, block).state, stands(three, block).votes) == ("pending", ("near", "off"))
    three.recover("far")
    assert stands(three, block).votes == ("near", "off")  # it has another epoch
    three.sync("far")
    assert stands(three, block).state == "committed"


def test_the_word_that_a_replica_gave_in_an_earlier_epoch_does_not_count(three: Replicas) -> None:
    block = begin(three, quorum_request=replace(HOUR, size=3)).add[0].id
    three.sync("far")

    def away(connection: Connection) -> None:
        connection.execute(schema.replicas.update().where(schema.replicas.c.name == "far").values(active_until=0.0))

    three.coordination.run(away)
    three.open("far")
    assert stands(three, block).votes == ("near",)
    three.sync("off")
    assert stands(three, block).state == "pending"
    three.sync("far")
    assert stands(three, block).state == "committed"


def test_one_whose_deadline_is_over_before_its_own_replica_has_it_has_failed(three: Replicas) -> None:
    with pytest.raises(QuorumFailedError, match="the deadline of the quorum was over before entry 1 could be executed"):
        begin(three, quorum_request=QuorumRequest(2, 0.0))
    assert three.back_up("near") == 3


def test_a_hold_does_not_keep_replicas_from_taking_a_backup_back(three: Replicas) -> None:
    block = begin(three, quorum_request=replace(HOUR, size=3)).add[0]
    archive = three.open("far")
    hold = Hold(
        id="h", source="shop_db", reason="audit", owner="me", position=block.covers.to_position,
        at=block.covers.to_time, created=block.covers.to_time,
    )  # fmt: skip
    archive.add(lambda state: Change(kind="hold", holds=(hold,)), check=nothing, fence=None)
    overdue(three)
    for name in ("near", "far", "off"):
        three.sync(name)
        assert block.id not in three.state(name).blocks


def test_a_trimming_keeps_what_is_pending_or_still_to_be_taken_back(three: Replicas) -> None:
    failing = begin(three).add[0].id
    overdue(three)
    for name in ("near", "far"):
        three.sync(name)
    pending = begin(three, quorum_request=replace(HOUR, size=3)).add[0].id
    three.sync("off", upto=1)

    def trim() -> None:
        trimming.trim(three.coordination, three.archive, min_keep=0, max_keep=100)

    def there(block: str) -> bool:
        return three.coordination.run(lambda c: quorum.of_block(c, three.archive, block)) is not None

    trim()
    assert there(failing)
    for name in ("near", "far"):
        three.sync(name)
    three.sync("off", upto=2)
    trim()
    assert not there(failing)
    assert there(pending)
    for name in ("off", "near", "far"):
        three.sync(name)
    trim()
    assert not there(pending)
    assert three.coordination.run(lambda c: c.execute(schema.votes.select()).all()) == []
