"""Breaking of one lock by a person: what was done is told for good, and nothing is done that cannot be told."""

from __future__ import annotations

from datetime import timedelta

import pytest

from holdfast.archive.locks.break_lock import break_lock, describe_break, read_breaks
from holdfast.common.errors import RefusedError, UsageError
from locking import Lease, LockLost, LockNotFound, Owner, RWLock
from locking.store import StoreDenied
from tests.support.stores.memory_store import MemoryStore, Spoilt

WHY = "its host burnt"


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


def take(store: MemoryStore, resource: str = "ingest-shop") -> Lease:
    return RWLock(store, resource, owner=Owner(user="ann")).write(purpose="backup", wait=0, renew=False)


def test_the_lock_is_ended_and_said_to_be_with_who_and_why(store: MemoryStore) -> None:
    lease, other = take(store), take(store, "ingest-crm")
    info, record = break_lock(store, lease.txn, reason=f"  {WHY} ", user="bob")
    owner = (record.result or {})["owner"]
    assert (info.resource, info.mode, info.txn, info.state) == ("ingest-shop", "W", lease.txn, "held")
    assert (record.operation, record.state, record.result) == (
        "break",
        "succeeded",
        {
            "resource": "ingest-shop",
            "mode": "W",
            "txn": lease.txn,
            "was": "held",
            "owner": owner,
            "purpose": "backup",
            "reason": WHY,
            "by": {"user": "bob", "host": Owner().here().host, "pid": Owner().here().pid},
            "at": "2026-03-01T00:00:00.000000Z",
        },
    )
    assert owner["user"] == "ann"
    with pytest.raises(LockLost):
        lease.check()
    other.check()
    assert read_breaks(store) == [record]
    assert describe_break(record).startswith(
        f"ingest-shop (txn {lease.txn}) was broken at 2026-03-01T00:00:00.000000Z by "
    )
    assert describe_break(record).endswith(f": {WHY}")
    assert "bob" in describe_break(record)


@pytest.mark.parametrize("reason", ["", " ", "\n\t"])
def test_nothing_is_broken_without_a_reason(store: MemoryStore, reason: str) -> None:
    lease = take(store)
    with pytest.raises(UsageError, match="say why the lock is broken: whoever looks"):
        break_lock(store, lease.txn, reason=reason)
    lease.check()
    assert read_breaks(store) == []


@pytest.mark.parametrize("cut", [0, 8, 31])
def test_only_the_whole_txn_names_a_lock(store: MemoryStore, cut: int) -> None:
    lease = take(store)
    before = store.keys()
    with pytest.raises(UsageError, match=f"^there is no lock with txn '{lease.txn[:cut]}'; .* Nothing was broken now$"):
        break_lock(store, lease.txn[:cut], reason=WHY)
    assert store.keys() == before
    lease.check()


def test_an_object_that_is_not_ours_is_no_lock(store: MemoryStore) -> None:
    store.put("locks/ingest-shop/notes.txt", b"")
    with pytest.raises(UsageError, match="there is no lock with txn"):
        break_lock(store, "locks/ingest-shop/notes.txt", reason=WHY)
    assert store.get("locks/ingest-shop/notes.txt") == b""


def test_of_copied_lock_objects_none_is_chosen(store: MemoryStore) -> None:
    lease = take(store)
    store.put(f"locks/history/WRIT.{lease.txn}", store.get(f"locks/ingest-shop/WRIT.{lease.txn}"))
    said = f"^txn {lease.txn} stands in the folders of history and ingest-shop: somebody has copied lock objects$"
    with pytest.raises(RefusedError, match=said):
        break_lock(store, lease.txn, reason=WHY)
    lease.check()


def test_breaks_are_told_of_one_lock_or_all_the_oldest_first_each_by_its_last_record(store: MemoryStore) -> None:
    txns = []
    for number in range(3):
        lease = take(store, f"r{number}")
        txns.append(lease.txn)
        break_lock(store, lease.txn, reason=f"reason {number}")
        store.advance(timedelta(seconds=1))
    assert len(store.keys("runs/")) == 6
    assert [(record.state, (record.result or {})["txn"]) for record in read_breaks(store)] == [
        ("succeeded", txn) for txn in txns
    ]
    for txn in txns:
        assert [(record.result or {})["txn"] for record in read_breaks(store, txn)] == [txn]
    assert read_breaks(store, txns[0][:-1]) == []


REQUESTS = (
    "list locks/",
    "get locks/ingest-shop/WRIT.T",
    "list runs/break-T.",
    "create runs/",
    "list locks/ingest-shop/",
    "get locks/ingest-shop/WRIT.T",
    "put locks/ingest-shop/DEAD.T",
    "delete locks/ingest-shop/INTENT.WRIT.T",
    "delete locks/ingest-shop/WRIT.T",
    "create runs/",
)
FIRST_RECORD = REQUESTS.index("create runs/")
LAST_RECORD = len(REQUESTS) - 1


def test_a_break_takes_these_requests(store: MemoryStore) -> None:
    lease = take(store)
    before = len(store.requests)
    break_lock(store, lease.txn, reason=WHY)
    made = [request.replace(lease.txn, "T") for request in store.requests[before:]]
    assert [(told, told.startswith(each)) for told, each in zip(made, REQUESTS, strict=True)] == [
        (told, True) for told in made
    ]


@pytest.mark.parametrize("at", range(LAST_RECORD))
def test_whatever_request_fails_a_broken_lock_has_a_record_and_one_without_stands(store: MemoryStore, at: int) -> None:
    lease = take(store)
    store.spoilt = Spoilt(len(store.requests) + at + 1, "before", StoreDenied("not allowed"))
    with pytest.raises(StoreDenied, match="not allowed"):
        break_lock(store, lease.txn, reason=WHY)
    if at <= FIRST_RECORD:
        assert read_breaks(store) == []
        lease.check()
    else:
        assert [record.state for record in read_breaks(store)] == ["failed"]


def test_where_the_last_record_fails_the_first_one_says_who_did_it(store: MemoryStore) -> None:
    lease = take(store)
    store.spoilt = Spoilt(len(store.requests) + LAST_RECORD + 1, "before", StoreDenied("not allowed"))
    assert break_lock(store, lease.txn, reason=WHY)[1].state == "succeeded"
    with pytest.raises(LockLost):
        lease.check()
    (record,) = read_breaks(store)
    assert record.state == "running"
    assert "was to be broken, and nothing says whether it was, at" in describe_break(record)


def test_a_lock_that_goes_meanwhile_is_said_to_have_gone() -> None:
    class Going(MemoryStore):
        lease: Lease | None = None

        def create(self, key: str, body: bytes) -> None:
            super().create(key, body)
            if key.startswith("runs/") and self.lease is not None:
                lease, self.lease = self.lease, None
                lease.release()

    store = Going()
    lease = store.lease = take(store)
    with pytest.raises(LockNotFound):
        break_lock(store, lease.txn, reason=WHY)
    assert [record.state for record in read_breaks(store)] == ["failed"]
