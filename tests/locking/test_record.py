"""Records: what is written is read back, and nothing else is taken for it."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from locking import LockBusy, Owner, RWLock
from locking.errors import UnreadableRecord
from locking.record import LockRecord, decode_record, encode_record
from locking.terms import Terms
from tests.locking.test_names import NAMES
from tests.support.locks.lockstore import MemoryStore

TEXT = st.text(max_size=50) | st.none()


OWNERS = st.builds(
    Owner,
    scope=st.sampled_from(["process", "task", "run"]),
    dag_id=TEXT,
    run_id=TEXT,
    task_id=TEXT,
    map_index=st.none() | st.integers(-1, 10**6),
    user=st.text(max_size=20),
    host=st.text(max_size=20),
    pid=st.integers(0, 2**31),
    process_start=st.integers(0, 2**63),
)


RECORDS = st.builds(
    LockRecord,
    txn=st.text("0123456789abcdef", min_size=32, max_size=32),
    mode=st.sampled_from(["R", "W"]),
    resource=NAMES,
    owner=OWNERS,
    purpose=st.text(max_size=100),
    since=st.datetimes(min_value=datetime(2000, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001 - hypothesis adds it
    terms=st.builds(Terms, st.floats(1, 1e6), st.floats(1, 1e6)),
)


@given(RECORDS)
def test_a_record_is_read_back_as_it_was(record: LockRecord) -> None:
    body = encode_record(record)
    assert decode_record(body, resource=record.resource, mode=record.mode, txn=record.txn) == record


@given(RECORDS, st.data())
def test_a_record_cut_short_is_unreadable(record: LockRecord, data: st.DataObject) -> None:
    body = encode_record(record)
    cut = body[: data.draw(st.integers(0, len(body) - 1))]
    with pytest.raises(UnreadableRecord):
        decode_record(cut, resource=record.resource, mode=record.mode, txn=record.txn)


@given(st.binary(max_size=200))
def test_any_other_bytes_are_unreadable(body: bytes) -> None:
    with pytest.raises(UnreadableRecord):
        decode_record(body, resource="r", mode="W", txn="0" * 32)


@given(RECORDS)
def test_a_field_that_a_later_release_adds_is_passed_over(record: LockRecord) -> None:
    body = encode_record(record).replace(b"{", b'{"x-added": [1, {}], ', 1)
    assert decode_record(body, resource=record.resource, mode=record.mode, txn=record.txn) == record


@given(st.binary(max_size=100))
def test_whatever_stands_in_a_lock_object_keeps_others_out(body: bytes) -> None:
    store = MemoryStore()
    store.place("locks/r/WRIT." + "0" * 32, body)
    with pytest.raises(LockBusy):
        RWLock(store, "r").read(wait=0, renew=False)


@pytest.mark.parametrize("since", ["2026-03-01T00:00:00", "2026-03-01", "", 9**99])
def test_a_record_without_a_time_in_a_zone_is_unreadable(since: object) -> None:
    record = LockRecord(
        txn="0" * 32, mode="R", resource="r", owner=Owner(), purpose="", since=datetime.now(UTC), terms=Terms()
    )
    body = json.dumps({**json.loads(encode_record(record)), "since": since}).encode()
    with pytest.raises(UnreadableRecord):
        decode_record(body, resource="r", mode="R", txn="0" * 32)


HOSTILE = [
    ("version", True),
    ("version", "1"),
    ("version", ...),
    ("txn", 7),
    ("mode", ["W"]),
    ("mode", "X"),
    ("owner", None),
    ("owner", {"pid": "7"}),
    ("owner", {"pid": 7.0}),
    ("owner", {"scope": "god"}),
    ("purpose", "\ud800"),
    ("since", 1767225600),
    ("since", ...),
    ("terms", {"lease": float("inf")}),
    ("terms", {"lease": 0.5}),
    ("terms", {"lease": "120"}),
    ("terms", {"lease": 10**400}),
]


@pytest.mark.parametrize(("name", "value"), HOSTILE)
def test_a_value_of_another_type_makes_a_record_unreadable(name: str, value: object) -> None:
    """Nothing is guessed: a record that cannot be read keeps others out."""
    record = LockRecord(
        txn="0" * 32, mode="R", resource="r", owner=Owner(), purpose="", since=datetime.now(UTC), terms=Terms()
    )
    document = json.loads(encode_record(record)) | {name: value}
    body = json.dumps({key: each for key, each in document.items() if each is not ...}).encode()
    with pytest.raises(UnreadableRecord, match="damaged or not ours"):
        decode_record(body, resource="r", mode="R", txn="0" * 32)
