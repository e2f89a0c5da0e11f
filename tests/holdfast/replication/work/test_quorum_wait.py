"""Waiting for a quorum: who waits brings the others up to it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import Any

import pytest

from holdfast.archive.maintenance.retention import parse_rules
from holdfast.archive.maintenance.truncation import truncate
from holdfast.common.errors import BusyError, OutcomeUnknownError
from holdfast.replication.log.errors import QuorumFailedError, StoreAwayError
from holdfast.replication.log.settings import QuorumRequest
from holdfast.replication.log.store import CoordinationStore
from holdfast.replication.log.trimming import trim
from holdfast.replication.work.leading import leading
from holdfast.replication.work.quorum_wait import SILENT_S, QuorumWait, settle
from holdfast.replication.work.replica_backup import await_quorum, pending_quorum, source_taken
from tests.support.replicas.quorums import overdue
from tests.support.replicas.replicated import Replicas, nothing

pytestmark = pytest.mark.slow


def begin(three: Replicas, size: int = 2) -> str:
    """Make a backup through `near` that needs a quorum; return its block."""
    archive = three.open("near")
    archive.quorum_request = QuorumRequest(size)
    return archive.add(three.backup(archive.store), check=nothing, fence=None).add[0].id


def waiting(three: Replicas, block: str, say: Callable[[str], None] = lambda words: None) -> QuorumWait:
    return QuorumWait(three.coordination, three.archive, block, "near", say=say)


def has(three: Replicas, name: str, block: str) -> bool:
    return block in three.state(name).blocks


def test_who_waits_brings_others_up_to_it_and_no_more_than_it_takes(three: Replicas) -> None:
    block = begin(three)
    found = waiting(three, block).decided()
    assert (found.state, found.votes) == ("committed", ("far", "near"))
    assert [has(three, name, block) for name in ("near", "far", "off")] == [True, True, False]


def test_it_goes_on_until_somebody_has_it(three: Replicas) -> None:
    block, said, pauses = begin(three), list[str](), list[float]()
    for name in ("far", "off"):
        shutil.move(three.folder / name, three.folder / f"{name}-away")

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 2:
            shutil.move(three.folder / "off-away", three.folder / "off")

    found = waiting(three, block, said.append).decided(sleep=sleep)
    assert (found.votes, len(pauses)) == (("near", "off"), 2)
    (words,) = said  # once, since nothing has changed in between
    assert words.startswith(
        "waiting for entry 1 (a backup of shop_db): 1 of 2 replicas (near). far: there is no archive"
    )


def test_who_has_no_patience_is_told_how_it_stands(three: Replicas) -> None:
    block = begin(three, size=3)
    shutil.rmtree(three.folder / "off")
    with pytest.raises(BusyError, match=r"still pending: entry 1 .* 2 of 3 replicas \(far, near\)\. off: there is no"):
        waiting(three, block).decided(patience=0)


def test_one_that_fails_is_taken_back_from_the_replica_it_was_made_through(three: Replicas) -> None:
    block = begin(three, size=3)
    shutil.rmtree(three.folder / "off")
    begun = waiting(three, block)
    begun.bring()
    overdue(three)
    found = begun.decided()
    assert found.state == "failed"
    assert not has(three, "near", block)
    with pytest.raises(QuorumFailedError, match=r"was taken back, since too few replicas had it in time: .*off: there"):
        begun.check_success(found)


def test_a_quorum_that_nobody_knows_is_unknown_and_not_failed(three: Replicas) -> None:
    with pytest.raises(OutcomeUnknownError, match="'holdfast points' shows whether the backup is there"):
        waiting(three, "nothing").decided()


def test_a_store_that_is_away_for_a_moment_does_not_end_the_wait(
    three: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    block, said = begin(three), list[str]()
    silent(monkeypatch, StoreAwayError("refused"), StoreAwayError("refused"), OutcomeUnknownError("no answer"))
    assert waiting(three, block, said.append).decided(sleep=lambda seconds: None).state == "committed"
    assert said == [
        "waiting for the coordination store, to say how the quorum stands: refused",  # once
        "waiting for the coordination store, to say how the quorum stands: no answer",
    ]


def test_a_store_that_stays_away_leaves_it_unknown_and_not_failed(
    three: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = waiting(three, begin(three, size=3))
    shutil.rmtree(three.folder / "off")
    begun.bring()
    now = [0.0]
    monkeypatch.setattr("holdfast.replication.work.quorum_wait.time.monotonic", lambda: now[0])
    begun.bring()  # the deadline is an hour away
    silent(monkeypatch, *[StoreAwayError("refused")] * 1000)

    def sleep(seconds: float) -> None:
        now[0] += 60

    with pytest.raises(
        OutcomeUnknownError, match=r"is not known \(refused\): once the store can be reached, 'holdfast"
    ):
        begun.decided(sleep=sleep)
    assert now[0] == pytest.approx(3600 + SILENT_S, abs=120)


def test_a_store_that_is_away_when_the_wait_begins_is_asked_again(
    three: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    block, address = begin(three), three.coordination.url
    monkeypatch.setattr("holdfast.replication.work.quorum_wait.POLL_S", 0)
    silent(monkeypatch, StoreAwayError("refused"))
    with pytest.raises(BusyError, match=r"still pending: the coordination store, .*: refused"):
        await_quorum(three.place("near"), block, address=address, say=nothing_said, patience=0)
    silent(monkeypatch, *[StoreAwayError("refused")] * 3)
    assert await_quorum(three.place("near"), block, address=address, say=nothing_said)["entry"] == 1
    monkeypatch.setattr("holdfast.replication.work.quorum_wait.SILENT_S", 0)
    silent(monkeypatch, StoreAwayError("refused"))
    with pytest.raises(OutcomeUnknownError, match="is not known"):
        await_quorum(three.place("near"), block, address=address, say=nothing_said)


def silent(monkeypatch: pytest.MonkeyPatch, *errors: Exception) -> None:
    """Have the next transactions end in errors."""
    run, waits = CoordinationStore.run, list(errors)

    def fail(self: CoordinationStore, *args: Any, **options: Any) -> Any:
        if waits:
            raise waits.pop(0)
        return run(self, *args, **options)

    monkeypatch.setattr(CoordinationStore, "run", fail)


def trimmed(three: Replicas) -> None:
    """Have all replicas execute the log, and trim it."""
    for name in ("near", "far", "off", "near"):
        three.sync(name)
    trim(three.coordination, three.archive, min_keep=0)


def test_a_quorum_that_was_trimmed_since_is_told_as_its_replica_remembers_it(three: Replicas) -> None:
    block = begin(three)
    trimmed(three)
    found = waiting(three, block).decided()
    assert (found.state, found.index, found.source) == ("committed", 1, "shop_db")
    assert found.votes == ("far", "near", "off")
    assert not pending_quorum(three.place("near"), block, address=three.coordination.url)
    three.back_up("near")
    with leading(three.open("near")) as near:
        truncate(near, parse_rules(["last=1"]), check=nothing, fence=None)
    assert block not in three.state("near").blocks
    assert waiting(three, block).decided().state == "committed"


def test_a_quorum_that_failed_and_was_trimmed_since_is_not_told_to_have_succeeded(three: Replicas) -> None:
    block = begin(three)
    overdue(three)
    trimmed(three)
    assert waiting(three, block).decided().state == "failed"


def test_what_was_added_without_a_quorum_is_not_told_to_have_had_one(three: Replicas) -> None:
    three.back_up("near")
    with pytest.raises(OutcomeUnknownError, match="knows nothing of a quorum"):
        waiting(three, three.backups[-1]).decided()


def test_a_lost_replica_remembers_nothing(three: Replicas) -> None:
    block = begin(three)
    trimmed(three)
    three.lose("near")
    with pytest.raises(OutcomeUnknownError, match="knows nothing of a quorum"):
        waiting(three, block).decided()


def test_work_that_must_not_go_on_waits_no_longer(three: Replicas) -> None:
    begun = waiting(three, begin(three))

    def check() -> None:
        raise RuntimeError("the parent is gone")

    begun.check = check
    with pytest.raises(RuntimeError, match="the parent is gone"):
        begun.decided()


def test_a_source_is_settled_once_its_last_backup_is(three: Replicas) -> None:
    block = begin(three)
    settle(three.open("far"), "other_db")
    assert pending_quorum(three.place("near"), block, address=three.coordination.url)
    settle(three.open("far"), "shop_db")
    assert not pending_quorum(three.place("near"), block, address=three.coordination.url)


def nothing_said(words: str) -> None:
    raise AssertionError(words)


def test_the_next_backup_of_a_source_waits_for_the_one_before_and_goes_on_where_that_failed(three: Replicas) -> None:
    block, said = begin(three, size=3), list[str]()
    shutil.rmtree(three.folder / "off")
    overdue(three)
    with source_taken(three.place("far"), "shop_db", "run", three.coordination.url, say=said.append):
        assert not has(three, "far", block)
        assert "shop_db" in said[0]
        assert "does not count: the backup was taken back" in said[0]
    second = begin(three)
    with source_taken(three.place("far"), "shop_db", "run", three.coordination.url, say=nothing_said):
        assert has(three, "far", second)
