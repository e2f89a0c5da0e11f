"""Messages taken apart, wherever a batch ends; the real server's are in test_changes.py."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import pyarrow as pa
import pytest

from holdfast.postgresql.logical.pgoutput import MessageReader, ProtocolError, RelationMessage

OID = 16_385


def begin(lsn: int, xid: int = 7) -> bytes:
    return b"B" + struct.pack(">qqI", lsn, 0, xid)


def commit(lsn: int) -> bytes:
    return b"C\0" + struct.pack(">qqq", lsn, lsn + 10, 0)


def relation(oid: int = OID, name: bytes = b"t", columns: int = 1) -> bytes:
    described = b"".join(b"\1a%d\0" % number + struct.pack(">Ii", 23, -1) for number in range(columns))
    return b"R" + struct.pack(">I", oid) + b"public\0" + name + b"\0d" + struct.pack(">H", columns) + described


def row(*values: str | None, oid: int = OID) -> bytes:
    cells = (b"n" if each is None else b"t" + struct.pack(">I", len(each)) + each.encode() for each in values)
    return b"I" + struct.pack(">I", oid) + b"N" + struct.pack(">H", len(values)) + b"".join(cells)


def truncate(*oids: int) -> bytes:
    return b"T" + struct.pack(f">IB{len(oids)}I", len(oids), 0, *oids)


def message(content: bytes, *, flags: int = 1, lsn: int = 0) -> bytes:
    return b"M" + struct.pack(">Bq", flags, lsn) + b"holdfast\0" + struct.pack(">I", len(content)) + content


STREAM = (
    begin(100), relation(), row("1"), row("2"), commit(100),
    message(b"alone", flags=0, lsn=150),
    begin(200), commit(200),
    begin(300, xid=9), row("3"), b"O" + struct.pack(">q", 5) + b"there\0", message(b"{}"), relation(columns=2),
    b"Y" + struct.pack(">I", 99) + b"public\0mood\0", relation(oid=7, name=b"u"), row("4", "x"), truncate(7, OID),
    row("5", None), commit(300),
)  # fmt: skip


def read(
    parts: Sequence[Sequence[bytes]],
) -> tuple[list[tuple[str, int, int, int]], list[tuple[int, int, int]], list[bytes]]:
    """Return table and columns, position and number of each change; the transactions; logical messages."""
    reader = MessageReader()
    changes, transactions, messages = [], [], []
    for part in parts:
        found = reader.read(pa.array(part, pa.binary()))
        inside = [
            (int(found.lsn[at]), int(found.number[at]), relation.name, len(relation.columns))
            for relation, rows in found.groups
            for at in rows
        ]
        changes += [(name, columns, lsn, number) for lsn, number, name, columns in sorted(inside)]
        ended = found.commits
        transactions += list(zip(ended.lsn.tolist(), ended.end_lsn.tolist(), ended.xid.tolist(), strict=True))
        messages += [each.content for each in found.messages]
    assert not reader.inside
    assert reader.types[99].name == "mood"
    return changes, transactions, messages


WANTED = (
    [
        ("t", 1, 100, 0), ("t", 1, 100, 1), ("t", 1, 300, 0), ("t", 2, 300, 2), ("t", 2, 300, 3), ("u", 1, 300, 3),
        ("t", 2, 300, 4),
    ],
    [(100, 110, 7), (200, 210, 7), (300, 310, 9)],
    [b"{}"],
)  # fmt: skip


def test_a_stream_means_the_same_wherever_its_batches_end() -> None:
    assert read([STREAM]) == WANTED
    assert read([[each] for each in STREAM]) == WANTED
    for cut in range(1, len(STREAM)):
        assert read([STREAM[:cut], STREAM[cut:]]) == WANTED


def test_a_slice_of_a_batch_is_read_as_such() -> None:
    whole = pa.array([b"unknown", *STREAM[:5]], pa.binary())
    [(announced, rows)] = MessageReader().read(whole.slice(1)).groups
    assert isinstance(announced, RelationMessage)
    assert rows.tolist() == [2, 3]


@pytest.mark.parametrize(
    ("stream", "why"),
    [
        ([b"S\0\0\0\1\1"], "a message of kind 'S'"),
        ([begin(1), b"Z" * 30], "a message of kind 'Z'"),
        ([begin(1) + b"\0"], "a message of kind 'B' of another size"),
        ([begin(1), relation(), b"I\0\0"], "a message of kind 'I' of another size"),
        ([begin(1), begin(2)], "transactions inside of each other"),
        ([commit(1)], "transactions inside of each other"),
        ([begin(1), commit(2)], "ends as another one than it began"),
        ([relation(), row("1")], "changes outside of a transaction"),
        ([begin(1), relation(), commit(1), row("1")], "changes outside of a transaction"),
        ([begin(1), row("1"), commit(1)], "rows of a table that it did not announce"),
        ([begin(1), row("1"), relation(), commit(1)], "rows of a table that it did not announce"),
        ([begin(1), relation()[:-3], commit(1)], "the description of a table that is cut off"),
        ([begin(1), relation(), truncate(OID) + b"\0", commit(1)], "a TRUNCATE of another size"),
    ],
)
def test_what_is_not_known_is_refused(stream: list[bytes], why: str) -> None:
    with pytest.raises(ProtocolError, match=why):
        MessageReader().read(pa.array(stream, pa.binary()))
