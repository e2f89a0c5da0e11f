"""Locks explained to a person on call: whom each keeps out, and what may be done without harm."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from holdfast.archive.locks import lock_report
from holdfast.archive.locks.lock_report import Explanation, explain
from holdfast.archive.locks.owner_status import OwnerState
from locking import LockInfo, Owner

TASK = Owner(scope="task", dag_id="load", run_id="r1", task_id="back_up", host="db1", pid=77)
RUN = replace(TASK, scope="run", task_id=None)
HELD = LockInfo(
    resource="maintenance",
    mode="W",
    txn="f" * 32,
    owner=TASK,
    purpose="compaction",
    since=datetime(2026, 3, 1, 12, tzinfo=UTC),
    age_s=60.0,
    expires_in_s=90.4,
    state="held",
)


def lock(**more: Any) -> LockInfo:
    return replace(HELD, **more)


def one(info: LockInfo, state: OwnerState | None = None) -> Explanation:
    (found,) = explain([info]) if state is None else explain([info], state_of=lambda owner: state)
    return found


@pytest.mark.parametrize(
    ("info", "safe", "said"),
    [
        (lock(state="expired"), "reap", "Its lease and grace are over"),
        (lock(state="dead"), "reap", "Somebody has ended it"),
        (lock(state="unreadable", mode="W", owner=None), "wait", "A newer Holdfast has written it, or it is damaged"),
        (lock(state="foreign", mode="", owner=None), "remove", "not an object of ours"),
        (lock(), "wait", "Whether its process lives can be seen on db1 only; it ends in 90 s unless it is renewed"),
        (lock(owner=None), "wait", "can be seen on its own host only"),
        (lock(expires_in_s=None), "wait", "it does not end by itself"),
        (lock(expires_in_s=-3.0), "wait", "it ends in 0 s unless"),
        (
            lock(owner=RUN),
            "wait",
            "It belongs to the run r1 of dag load, not to a process. Break it if that run is over",
        ),
        (lock(owner=Owner(scope="run")), "wait", "It belongs to a run, not to a process"),
    ],
)
def test_each_lock_says_what_may_be_done(info: LockInfo, safe: str, said: str) -> None:
    found = one(info)
    assert (found.safe, said in found.advice) == (safe, True), found.advice


@pytest.mark.parametrize(
    ("process", "safe", "said"),
    [
        ("gone", "reap", "Its process is gone: reap ends it"),
        ("running", "wait", "Its process runs on this machine. Wait, or end it in order: kill 77."),
    ],
)
def test_what_can_be_seen_of_its_process_counts(
    monkeypatch: pytest.MonkeyPatch, process: str, safe: str, said: str
) -> None:
    monkeypatch.setattr(lock_report, "liveness", lambda owner: process)
    found = one(lock(), OwnerState("success", has_ended=True))
    assert (found.process, found.safe, said in found.advice) == (process, safe, True), found.advice
    # Of a lock that outlives the processes of its run, they prove nothing.
    assert one(lock(owner=RUN)).safe == "wait"


@pytest.mark.parametrize(
    ("owner", "state", "safe", "said"),
    [
        (
            TASK,
            OwnerState("failed", has_ended=True),
            "wait",
            "its task has ended, but its process may still be at work",
        ),
        (TASK, OwnerState("up_for_retry"), "wait", "Airflow says that its task is up for retry: wait, or end the task"),
        (RUN, OwnerState("failed", has_ended=True), "break", "Airflow says that its run has ended: it ends in 90 s"),
        (
            RUN,
            OwnerState("queued", is_paused=True),
            "wait",
            "the run r1 of dag load, which is queued, but its DAG is paused",
        ),
        (RUN, OwnerState("running"), "wait", "the run r1 of dag load, which Airflow says is running: it ends in 90 s"),
    ],
)
def test_airflows_word_on_its_owner_is_told(owner: Owner, state: OwnerState, safe: str, said: str) -> None:
    found = one(lock(owner=owner), state)
    assert (found.safe, said in found.advice) == (safe, True), found.advice
    assert (found.finished, found.airflow_state) == (state.has_ended, state.state)


def test_a_lock_without_an_owner_is_not_asked_about() -> None:
    (found,) = explain([lock(owner=None)], state_of=lambda owner: pytest.fail("it was"))
    assert (found.process, found.finished, found.airflow_state) == ("unknown", False, "")


def test_operations_that_are_kept_out_are_named() -> None:
    written = one(lock()).keeps_out
    assert {"compaction", "truncation", "vacuum"} <= set(written)
    assert "backup" not in written
    assert list(written) == sorted(written)
    assert "backup" in one(lock(resource="ingest-shop")).keeps_out
    assert one(lock(resource="report")).keeps_out == ()


def test_readers_keep_out_writers_only() -> None:
    read, written = (set(one(lock(resource="format", mode=mode)).keeps_out) for mode in ("R", "W"))
    assert "backup" not in read
    assert "migration" in read
    assert {"backup", "migration"} <= written


def test_what_the_next_one_ends_by_itself_keeps_nobody_out() -> None:
    assert one(lock(state="expired")).keeps_out == ()


def waiting(mine: LockInfo, *others: LockInfo) -> tuple[LockInfo, ...]:
    return explain([mine, *others])[0].waiting


def test_whoever_asks_for_the_same_resource_waits_for_what_excludes_it() -> None:
    asking, elsewhere = lock(state="intent", txn="a"), lock(state="intent", txn="b", resource="format")
    assert waiting(lock(), asking, elsewhere, lock(txn="c")) == (asking,)


@pytest.mark.parametrize(
    ("mine", "other", "waits"),
    [
        (lock(mode="R"), "R", False),
        (lock(mode="R"), "W", True),
        (lock(mode="W"), "R", True),
        (lock(mode="", state="foreign"), "R", True),
        (lock(state="expired"), "W", False),
        (lock(state="dead"), "W", False),
        (lock(state="unreadable"), "W", True),
        (lock(state="intent"), "W", False),  # of two who ask, nobody has it yet
    ],
)
def test_nobody_waits_for_what_shares_or_holds_nothing(mine: LockInfo, other: str, waits: bool) -> None:
    asking = lock(state="intent", txn="a", mode=other)
    assert waiting(mine, asking) == ((asking,) if waits else ())
