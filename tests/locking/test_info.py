"""Locks as they are told to people: who, what for, since when, and until when nobody may end them."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from locking import LockInfo, Owner, Runtime, RWLock, Terms, inspect
from locking.errors import UnreadableRecord
from locking.folder import FolderClaim, LockFolder
from locking.info import Records, describe_claim, describe_foreign, intent_is_over, is_over, lease_is_over
from locking.record import LockRecord, encode_record
from tests.support.locks.lockstore import START, MemoryStore
from tests.support.locks.looks import claim, look, object_at, txn

TERMS = Terms(lease=100, grace=20, attempt=30)
ONE = txn(1)
ANN = Owner(user="ann", host="db1", pid=7)
HELD = LockInfo(
    resource="history", mode="W", txn=ONE, owner=ANN, purpose="vacuum", since=START, age_s=90.0, expires_in_s=30.0,
    state="held",
)  # fmt: skip
BY = ANN.describe()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({}, f"history is held for writing for vacuum by {BY}, since 2026-01-01 00:00:00 UTC, 90 s by now"),
        ({"mode": "R", "purpose": ""}, f"history is held for reading by {BY}, since"),
        ({"state": "expired"}, "history is held for writing"),
        ({"state": "intent"}, "history is requested for writing for vacuum by"),
        ({"state": "dead"}, "history was held for writing for vacuum by"),
        ({"owner": None}, "history is held for writing for vacuum by an owner who is just leaving, since"),
        ({"since": None}, f"history is held for writing for vacuum by {BY}, 90 s by now"),
        ({"mode": ""}, "history is held for use for vacuum"),
        ({"state": "unreadable", "detail": "why"}, f"history has a lock {ONE} that cannot be read: why"),
        ({"state": "foreign", "txn": "a/notes"}, "a/notes is not an object of ours (remove it if it is not needed)"),
    ],
)
def test_a_lock_is_told_in_one_clause(more: dict[str, str], said: str) -> None:
    found = replace(HELD, **more).describe()  # type: ignore[arg-type]
    assert found.startswith(said)
    assert found.endswith(f"(txn {ONE})") or found == said


@pytest.mark.parametrize(
    ("age", "said"),
    [(0.4, "0 s"), (119.4, "119 s"), (120.0, "2 min"), (7199.0, "120 min"), (7200.0, "2 h"), (86400.0, "24 h")],
)
def test_an_age_is_told_as_people_say_it(age: float, said: str) -> None:
    assert f", {said} by now" in replace(HELD, age_s=age).describe()


@pytest.fixture
def folder(store: MemoryStore) -> LockFolder:
    return LockFolder(store, "locks", "a")


def record(since: float = 0.0) -> LockRecord:
    return LockRecord(
        txn=ONE, mode="W", resource="a", owner=ANN, purpose="work", since=START + timedelta(seconds=since), terms=TERMS,
    )  # fmt: skip


def test_a_record_is_read_once(store: MemoryStore, folder: LockFolder) -> None:
    store.place(folder.target("W", ONE), encode_record(record()))
    records, held = Records(folder), claim(1, "W", target=0)
    assert records.of(held) == records.of(held) == record()
    assert store.words() == ["get WRIT"]


def test_what_has_just_gone_is_asked_for_again_and_what_cannot_be_read_is_not(
    store: MemoryStore, folder: LockFolder
) -> None:
    records, held = Records(folder), claim(1, "W", target=0)
    assert records.of(held) is None
    store.place(folder.target("W", ONE), b"{}")
    assert isinstance(records.of(held), UnreadableRecord)
    store.place(folder.target("W", ONE), encode_record(record()))
    assert isinstance(records.of(held), UnreadableRecord)
    other = Records(LockFolder(store, "locks", "b"))
    assert isinstance(other.of(held), UnreadableRecord)  # it says that it is of another resource


@pytest.mark.parametrize(
    ("held", "now", "over", "lease_over"),
    [
        (claim(1, "W", target=0), 101, False, False),  # a store rounds times down to a second
        (claim(1, "W", target=0), 101.5, False, True),
        (claim(1, "W", target=0), 120, False, True),
        (claim(1, "W", target=0), 120.5, True, True),
        (claim(1, "W", intent=0), 31, False, False),
        (claim(1, "W", intent=0), 31.5, False, True),
        (claim(1, "W", intent=0), 50, False, True),
        (claim(1, "W", intent=0), 50.5, True, True),
        (claim(1, "W", intent=0, target=40), 100, False, False),  # a target counts by its own age
    ],
)
def test_a_claim_is_over_after_its_lease_and_grace(held: FolderClaim, now: float, over: bool, lease_over: bool) -> None:
    seen = look(held, now=now)
    assert (is_over(seen, held, TERMS), lease_is_over(seen, held, TERMS)) == (over, lease_over)


def test_an_intent_outlives_every_attempt_also_beside_a_healthy_target() -> None:
    for held, over in (
        (claim(1, "W", intent=0, target=40), True),
        (claim(1, "W", intent=1, target=40), False),
        (claim(1, "W", target=0), False),
    ):
        assert intent_is_over(look(held, now=50.5), held, TERMS) is over


@pytest.mark.parametrize(
    ("held", "now", "state", "expires"),
    [
        (claim(1, "W", target=10), 30, "held", 100.0),
        (claim(1, "W", target=10), 130.5, "expired", -0.5),
        (claim(1, "W", intent=10), 30, "intent", 30.0),
        (claim(1, "W", intent=10), 60.5, "expired", -0.5),
    ],
)
def test_a_claim_is_described_by_its_record(
    folder: LockFolder, held: FolderClaim, now: float, state: str, expires: float
) -> None:
    found = describe_claim(folder, look(held, now=now), held, record(since=5))
    assert (found.resource, found.mode, found.txn, found.state, found.expires_in_s) == ("a", "W", ONE, state, expires)
    assert (found.purpose, found.since, found.age_s) == ("work", START + timedelta(seconds=5), now - 5)
    assert found.owner == ANN


def test_a_claim_that_was_ended_is_dead_whatever_its_age(folder: LockFolder) -> None:
    for held in (claim(1, "W", target=0), claim(1, "W", intent=0)):
        for now in (1, 1000):
            assert describe_claim(folder, look(held, now=now, dead={1: 0}), held, record()).state == "dead"


def test_a_claim_without_a_record_tells_what_its_object_does(folder: LockFolder) -> None:
    held = claim(1, "R", target=10)
    leaving = describe_claim(folder, look(held, now=15), held, None)
    assert (leaving.state, leaving.owner, leaving.since, leaving.age_s, leaving.expires_in_s) == (
        "held", None, None, 5, None,
    )  # fmt: skip
    unread = describe_claim(folder, look(held, now=15), held, UnreadableRecord("it is newer"))
    assert (unread.state, unread.detail, unread.expires_in_s, unread.age_s) == ("unreadable", "it is newer", None, 5)


def test_an_object_that_is_not_ours_is_named_by_its_key() -> None:
    found = describe_foreign("a", look(now=9), object_at("locks/a/notes", second=2))
    assert (found.resource, found.mode, found.txn, found.state, found.age_s) == ("a", "", "locks/a/notes", "foreign", 7)


# What onlookers are shown.


def test_everything_in_every_folder_is_shown_and_nothing_changed(store: MemoryStore, runtime: Runtime) -> None:
    def take(resource: str, mode: str, **options: object) -> str:
        lock = RWLock(store, resource, runtime=runtime, owner=Owner(scope="run"), **options)  # type: ignore[arg-type]
        taken = lock.read(wait=0, renew=False) if mode == "R" else lock.write(purpose="work", wait=0, renew=False)
        return taken.txn

    expired = take("a", "R", lease=1.0, grace=1.0)
    store.time.sleep(10)
    held, dead = take("b", "W"), take("c", "W")
    store.place(f"locks/c/DEAD.{dead}", b"")
    asking = "e" * 32
    body, _ = store.objects.pop(f"locks/{'d'}/WRIT.{take('d', 'W')}")
    store.place(f"locks/d/INTENT.WRIT.{asking}", body)
    store.place("locks/e/WRIT." + "f" * 32, b"?")
    store.place("locks/e/note", b"")
    store.time.sleep(3)
    before = dict(store.objects)
    store.forget()
    found = inspect(store, runtime=runtime)
    assert store.objects == before
    assert [(info.resource, info.mode, info.txn, info.state) for info in found] == [
        ("a", "R", expired, "expired"),
        ("b", "W", held, "held"),
        ("c", "W", dead, "dead"),
        ("d", "W", asking, "unreadable"),
        ("e", "", "locks/e/note", "foreign"),
        ("e", "W", "f" * 32, "unreadable"),
    ]
    assert store.words().count("list") == 1
    shown = {info.resource: info for info in found}
    assert (shown["a"].age_s, shown["a"].expires_in_s) == (13.0, -11.0)
    assert (shown["b"].age_s, shown["b"].expires_in_s, shown["b"].purpose) == (3.0, 177.0, "work")
    assert shown["e"].expires_in_s is None
    assert all(info.describe() for info in found)
