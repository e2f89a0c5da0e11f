"""Messages of the output plugin pgoutput, read in batches.

No row is touched on its own.

Protocol version 1 without streaming, text values, logical messages: PostgreSQL manual, 'Logical
Replication Message Formats', TupleData. What spans batches, the open transaction and the relations that were
announced, is kept from one to the next; of the rows, nothing is.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from holdfast.common.errors import HoldfastError
from holdfast.postgresql.values import arrow
from holdfast.postgresql.values.from_text import Cells

if TYPE_CHECKING:
    import pyarrow as pa

    from holdfast.postgresql.values.pg_hash import Int64s, UInt8s


_BEGIN, _COMMIT, _MESSAGE, _RELATION, _TYPE = b"BCMRY"
INSERT, UPDATE, DELETE, TRUNCATE = b"IUDT"
"""Kinds of changes."""

_LEAST: Final = np.zeros(256, np.int64)
"""Bytes of the shortest message of each kind; 0 where there is no such kind."""
_LEAST[list(b"BCIUDTMRYO")] = (21, 26, 8, 8, 8, 10, 15, 9, 7, 10)
_EXACT: Final = (_BEGIN, _COMMIT)
_ROW_KINDS: Final = np.zeros(256, np.bool_)
_ROW_KINDS[list(b"IUD")] = True
_COUNTED: Final = np.zeros(256, np.bool_)
"""Messages that are numbered in their transaction: those whose number is the same each time it is decoded."""
_COUNTED[list(b"IUDTM")] = True

KEY, OLD, NEW = b"KON"
"""What a tuple in an update or a deletion is: the key of the old row, the whole old row, the new row."""

_TRANSACTIONAL: Final = 1


class RelationColumn(NamedTuple):
    """A column as a Relation message gives it; generated ones are not among them.

    :param in_key: part of the replica identity.
    """

    name: str
    type_oid: int
    typmod: int
    in_key: bool


@dataclass(frozen=True)
class RelationMessage:
    """Content of a Relation message, compared by value.

    :param identity: pg_class.relreplident: d(efault), n(othing), f(ull) or i(ndex).
    """

    oid: int
    relation_schema: str
    name: str
    identity: str
    columns: tuple[RelationColumn, ...]

    @property
    def label(self) -> str:
        """Return `schema.name`, for people."""
        return f"{self.relation_schema}.{self.name}"


class TypeName(NamedTuple):
    """Content of a Type message: the type below all domains, as it was named then."""

    type_schema: str
    name: str


class LogicalMessage(NamedTuple):
    """Content written by `pg_logical_emit_message` in a transaction.

    :param row: its number in the batch.
    """

    row: int
    prefix: str
    content: bytes


@dataclass(frozen=True)
class Commits:
    """Transactions that ended in a batch: positions, transaction id, microseconds since 1970.

    :param rows: numbers of their messages in the batch.
    """

    rows: Int64s
    lsn: Int64s
    end_lsn: Int64s
    xid: Int64s
    committed_at: Int64s


@dataclass(frozen=True)
class PgoutputMessages:
    """One batch, taken apart.

    Per message: `lsn` of its transaction, and its `number` among the transaction's changes, from 0.

    :param buffer: all bytes; `starts` and `ends` say which are a message's.
    :param passed: every transaction whose commit record starts before it had come by then; 0 where only commits tell.
    :param groups: numbers of the messages that change a relation, in order; a TRUNCATE is in those of all it emptied.
    """

    buffer: pa.Buffer
    octets: UInt8s
    kinds: UInt8s
    starts: Int64s
    ends: Int64s
    lsn: Int64s
    number: Int64s
    groups: list[tuple[RelationMessage, Int64s]]
    messages: list[LogicalMessage]
    commits: Commits
    passed: int


class _Open(NamedTuple):
    """The transaction that goes on in the next batch; `changes` of it were seen."""

    lsn: int
    xid: int
    committed_at: int
    changes: int


_EPOCH_US: Final = 946_684_800_000_000
"""Microseconds from 1970-01-01 to PostgreSQL's epoch, 2000-01-01."""


class MessageReader:
    """Reader of a stream, batch by batch.

    :param types: what Type messages have said, by oid.
    """

    def __init__(self) -> None:
        self.types: dict[int, TypeName] = {}
        self._relations: dict[int, RelationMessage] = {}
        self._known: dict[bytes, RelationMessage] = {}
        self._open: _Open | None = None

    @property
    def inside(self) -> bool:
        """Return whether a transaction has begun and not ended."""
        return self._open is not None

    def relation(self, oid: int) -> RelationMessage | None:
        """Return a relation as it was announced last."""
        return self._relations.get(oid)

    def read(self, batch: pa.Array) -> PgoutputMessages:
        """Take a batch of messages apart.

        :param batch: a binary array without NULLs.
        :raises ProtocolError: there is something that is not known.
        """
        octets = arrow.data(batch)
        offsets = arrow.offsets(batch).astype(np.int64)
        starts, ends = offsets[:-1], offsets[1:]
        kinds = octets[starts]
        _check(kinds, ends - starts)
        begins = np.flatnonzero(kinds == _BEGIN)
        commits = np.flatnonzero(kinds == _COMMIT)
        lsn, number, committed = self._transactions(octets, starts, kinds, begins, commits)
        truncated: list[tuple[int, int]] = []
        messages = []
        passed = 0
        for row in np.flatnonzero((kinds == _MESSAGE) | (kinds == TRUNCATE)).tolist():
            body = octets[starts[row] : ends[row]].tobytes()
            if kinds[row] == TRUNCATE:
                truncated += ((row, oid) for oid in _truncated(body))
            elif body[1] & _TRANSACTIONAL:
                messages.append(_message(row, body))
            else:  # comes where it stands in the log, not with a commit; it tells where it ends
                passed = max(passed, int.from_bytes(body[2:10]))
        rows = np.flatnonzero(_ROW_KINDS[kinds])
        oids = np.concatenate(
            [integers(octets, starts[rows] + 1, 4), np.array([oid for _, oid in truncated], np.int64)]
        )
        rows = np.concatenate([rows, np.array([row for row, _ in truncated], np.int64)])
        groups = self._grouped(octets, starts, ends, kinds, rows, oids)
        return PgoutputMessages(
            buffer=batch.buffers()[2],
            octets=octets,
            kinds=kinds,
            starts=starts,
            ends=ends,
            lsn=lsn,
            number=number,
            groups=groups,
            messages=messages,
            commits=committed,
            passed=passed,
        )

    def _transactions(
        self, octets: UInt8s, starts: Int64s, kinds: UInt8s, begins: Int64s, commits: Int64s
    ) -> tuple[Int64s, Int64s, Commits]:
        """Return each message's commit position and number, and the ended transactions."""
        carried = self._open
        at = starts[begins] + 1
        lsn, time, xid = integers(octets, at, 8), integers(octets, at + 8, 8), integers(octets, at + 16, 4)
        first = [] if carried is None else [carried]
        lsn = np.concatenate([np.array([each.lsn for each in first], np.int64), lsn])
        time = np.concatenate([np.array([each.committed_at for each in first], np.int64), time])
        xid = np.concatenate([np.array([each.xid for each in first], np.int64), xid])
        opened = np.concatenate([np.full(len(first), -1, np.int64), begins])
        if not _alternate(opened, commits):
            raise ProtocolError("transactions inside of each other")
        which = np.cumsum(kinds == _BEGIN) - 1 + len(first)
        counted = np.cumsum(_COUNTED[kinds])
        before = np.concatenate([np.array([-each.changes for each in first], np.int64), counted[begins]])
        closed = np.full(len(opened), len(kinds), np.int64)
        closed[: len(commits)] = commits
        inside = which >= 0
        if len(opened):
            inside &= np.arange(len(kinds)) <= closed[which]
        self._refuse_outside(octets, starts, kinds, inside)
        if not len(opened):
            zeros = np.zeros(len(kinds), np.int64)
            return zeros, zeros, Commits(commits, zeros[:0], zeros[:0], zeros[:0], zeros[:0])
        number = counted - 1 - before[which]
        ended = slice(0, len(commits))
        at = starts[commits] + 2
        if (integers(octets, at, 8) != lsn[ended]).any():
            raise ProtocolError("a transaction that ends as another one than it began")
        done = Commits(commits, lsn[ended], integers(octets, at + 8, 8), xid[ended], time[ended] + _EPOCH_US)
        self._open = None
        if len(opened) > len(commits):
            last = int(counted[-1] - before[-1])
            self._open = _Open(int(lsn[-1]), int(xid[-1]), int(time[-1]), last)
        return lsn[which], number, done

    @staticmethod
    def _refuse_outside(octets: UInt8s, starts: Int64s, kinds: UInt8s, inside: npt.NDArray[np.bool_]) -> None:
        """Refuse changes outside of a transaction.

        Only messages of `pg_logical_emit_message(false, …)` come between transactions.
        """
        outside = np.flatnonzero(~inside)
        if len(outside):
            allowed = (kinds[outside] == _MESSAGE) & (octets[starts[outside] + 1] & _TRANSACTIONAL == 0)
            if not allowed.all():
                raise ProtocolError("changes outside of a transaction")

    def _grouped(
        self, octets: UInt8s, starts: Int64s, ends: Int64s, kinds: UInt8s, rows: Int64s, oids: Int64s
    ) -> list[tuple[RelationMessage, Int64s]]:
        """Return the changes of each relation, in order, as it was announced last before them."""
        before = dict(self._relations)
        announced: dict[int, list[tuple[int, RelationMessage]]] = {}
        for row in np.flatnonzero((kinds == _RELATION) | (kinds == _TYPE)).tolist():
            body = octets[starts[row] : ends[row]].tobytes()
            if kinds[row] == _TYPE:
                oid, name = _type(body)
                self.types[oid] = name
                continue
            relation = self._known.get(body) or self._known.setdefault(body, _relation(body))
            self._relations[relation.oid] = relation
            announced.setdefault(relation.oid, []).append((row, relation))
        if not len(rows):
            return []
        order = np.lexsort((rows, oids)) if (oids != oids[0]).any() else np.argsort(rows, kind="stable")
        rows, oids = rows[order], oids[order]
        edges = np.flatnonzero(np.diff(oids)) + 1
        found = []
        for oid, of_one in zip(oids[np.concatenate([[0], edges])].tolist(), np.split(rows, edges), strict=True):
            first = [(-1, before[oid])] if oid in before else []
            found += _by_announcement(of_one, first + announced.get(oid, []))
        return found


def _check(kinds: UInt8s, sizes: Int64s) -> None:
    least = _LEAST[kinds]
    unknown = np.flatnonzero(least == 0)
    if len(unknown):
        raise ProtocolError(f"a message of kind {chr(kinds[unknown[0]])!r}")
    wrong = sizes < least
    for kind in _EXACT:
        wrong |= (kinds == kind) & (sizes != least)
    if wrong.any():
        raise ProtocolError(f"a message of kind {chr(kinds[np.argmax(wrong)])!r} of another size")


def _alternate(opened: Int64s, commits: Int64s) -> bool:
    """Return whether each transaction ends before the next begins."""
    if len(opened) - len(commits) not in (0, 1):
        return False
    closed = opened[: len(commits)]
    return bool((closed < commits).all() and (opened[1:] > commits[: len(opened) - 1]).all())


def _by_announcement(
    rows: Int64s, announced: list[tuple[int, RelationMessage]]
) -> list[tuple[RelationMessage, Int64s]]:
    """Cut a table's rows where it was announced with other contents than before."""
    changes = [each for place, each in enumerate(announced) if not place or announced[place - 1][1] != each[1]]
    cuts = np.searchsorted(rows, [row for row, _ in changes])
    if not changes or cuts[0]:
        raise ProtocolError("rows of a table that it did not announce")
    parts = np.split(rows, cuts[1:])
    return [(relation, part) for (_, relation), part in zip(changes, parts, strict=True) if len(part)]


def _string(body: bytes, at: int) -> tuple[str, int]:
    end = body.index(0, at)
    return body[at:end].decode(), end + 1


def _relation(body: bytes) -> RelationMessage:
    try:
        schema, at = _string(body, 5)
        name, at = _string(body, at)
        identity, count = chr(body[at]), int.from_bytes(body[at + 1 : at + 3])
        at += 3
        columns = []
        for _ in range(count):
            in_key = body[at]
            column, at = _string(body, at + 1)
            oid, typmod = struct.unpack_from(">Ii", body, at)
            at += 8
            columns.append(RelationColumn(column, oid, typmod, bool(in_key & 1)))
    except (ValueError, IndexError, struct.error) as error:
        raise ProtocolError("the description of a table that is cut off") from error
    # pg_catalog is sent as an empty name.
    return RelationMessage(int.from_bytes(body[1:5]), schema or "pg_catalog", name, identity, tuple(columns))


def _type(body: bytes) -> tuple[int, TypeName]:
    schema, at = _string(body, 5)
    return int.from_bytes(body[1:5]), TypeName(schema or "pg_catalog", _string(body, at)[0])


def _truncated(body: bytes) -> tuple[int, ...]:
    count = int.from_bytes(body[1:5])
    if len(body) != 6 + 4 * count:
        raise ProtocolError("a TRUNCATE of another size")
    return struct.unpack_from(f">{count}I", body, 6)


def _message(row: int, body: bytes) -> LogicalMessage:
    prefix, at = _string(body, 10)
    return LogicalMessage(row, prefix, body[at + 4 :])


_NULL, _UNCHANGED, _TEXT = b"nut"


class ProtocolError(HoldfastError):
    """Content of the stream that this release does not understand.

    Nothing of the stream may be kept.
    """

    def __init__(self, what: str) -> None:
        super().__init__(
            f"the stream of changes holds {what}, which this release does not understand: "
            "update Holdfast, or take a full backup"
        )


_BIG: Final = {2: ">u2", 4: ">u4", 8: ">i8"}


def integers(octets: UInt8s, at: Int64s, width: int) -> Int64s:
    """Return the big-endian integers that begin at `at`.

    They have 2 or 4 bytes without a sign, or 8 with one.
    """
    if not len(at):
        return np.zeros(0, np.int64)
    everywhere: npt.NDArray[np.generic] = np.ndarray((len(octets) - width + 1,), _BIG[width], octets, strides=(1,))
    try:
        return everywhere[at].astype(np.int64)
    except IndexError as error:
        raise ProtocolError("a message that is cut off") from error


def tuples(octets: UInt8s, at: Int64s, columns: int) -> tuple[list[Cells], Int64s]:
    """Read the tuples that begin at `at`; return their columns, and where each ends.

    :raises ProtocolError: they do not have so many columns, or are none.
    """
    if (integers(octets, at, 2) != columns).any():
        raise ProtocolError("rows of another number of columns than their table")
    at = at + 2
    cells = []
    for _ in range(columns):
        flags = octets.take(at, mode="clip")
        text = flags == _TEXT
        if text.all():
            length = integers(octets, at + 1, 4)
            start = at + 5
            unchanged = None
        else:
            length = np.zeros(len(at), np.int64)
            length[text] = integers(octets, at[text] + 1, 4)
            start = at + np.where(text, 5, 1)
            unchanged = flags == _UNCHANGED
            if not (text | unchanged | (flags == _NULL)).all():
                raise ProtocolError("values in another format than text")
            if not unchanged.any():
                unchanged = None
        cells.append(Cells(start, length, text, unchanged))
        at = start + length
    return cells, at
