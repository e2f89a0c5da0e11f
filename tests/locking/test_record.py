"""Records: what is written is read back, and nothing else is taken for it."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from locking import Owner
from locking.errors import UnreadableRecord
from locking.record import LockRecord, decode_record, encode_record
from locking.terms import Terms


@given(st.binary(max_size=200))
def test_any_other_bytes_are_unreadable(body: bytes) -> None:
    with pytest.raises(UnreadableRecord):
        decode_record(body, resource="r", mode="W", txn="0" * 32)


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
    ("since", "2026-03-01T00:00:00"),
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
