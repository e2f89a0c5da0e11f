"""A small database that is followed, what it held after each transaction, and what its archive must then hold.

Its rows have plain values only, so that what the server says of them and what a query of the archive finds compare as
text.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa

from holdfast.archive import Archive
from holdfast.archive.files.blocks import read_batches
from holdfast.archive.history import target_resolution
from holdfast.archive.history.coverage import covered_ranges
from holdfast.archive.history.recovery_target import RecoveryTarget
from holdfast.archive.maintenance.verify import verify
from holdfast.common.field_ids import LSN, SEQ, field_id
from holdfast.common.lsn import PAGE_HEADER, parse_position
from holdfast.point_in_time.query import Query
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.logical.stream import stream_name
from tests.support.databases.truth import Rows, Truth

SOURCE = "shop"
_MEMORY_BYTES = 64 << 20

BEGINNING = (
    "create table orders (id int primary key, word text)",
    "insert into orders select i, 'order' || i from generate_series(1, 20) i",
    "create table docs (id int primary key, hits int, body text)",
    "alter table docs alter body set storage external",
    "insert into docs select i, 0, repeat(md5(i::text), 100) from generate_series(1, 3) i",
    "create table words (word text, n int)",
    "alter table words replica identity full",
    "insert into words values ('a', 1), ('a', 1), ('b', 2), (null, null)",
)
"""Tables with a key, with values outside of their rows, and without a key."""

CHANGES = (
    ("insert into orders select i, 'new' from generate_series(21, 24) i", "update docs set hits = hits + 1"),
    ("update orders set word = 'changed' where id <= 3", "insert into words values ('a', 1), ('c', 3)"),
    ("create table late (id int primary key, n int)", "insert into late values (1, 1)"),
    ("delete from orders where id in (4, 21)", "update docs set id = 11 where id = 1", "update words set n = 7"),
    ("update orders set id = id + 100 where id = 5", "insert into late values (2, 2)"),
)
"""Transactions between two backups; the second backup begins with a table that the first does not know."""

MORE_CHANGES = (
    ("update docs set hits = 5 where id = 11", "update late set n = n + 1", "delete from words where word = 'a'"),
    ("insert into orders values (4, 'again')", "insert into late values (3, 3)"),
)

LAST_CHANGES = (("update late set n = 0 where id = 2", "update orders set word = 'last' where id > 100"),)


def begin(address: Address) -> None:
    """Make the tables in an empty database."""
    with connect(address) as session:
        session.execute("set search_path = public")
        for statement in BEGINNING:
            session.execute(statement.encode())


def run_all(truth: Truth, transactions: tuple[tuple[str, ...], ...]) -> None:
    for statements in transactions:
        truth.run(*statements)


def slot_of(archive: Archive) -> str:
    return stream_name(archive.identity.id, SOURCE)


def left_on(address: Address) -> tuple[list[str], list[str]]:
    """Return the slots and the publications of a database."""
    with connect(address) as session:
        slots = session.execute(
            "select slot_name::text from pg_replication_slots where database = current_database()"
        ).fetchall()
        publications = session.execute("select pubname::text from pg_publication").fetchall()
    return [row[0] for row in slots], [row[0] for row in publications]


def settled(address: Address) -> bool:
    """Say whether no session but this one is in a database, and no temporary slot."""
    with connect(address) as session:
        row = session.execute(
            "select (select count(*) from pg_replication_slots where database = current_database() "
            "and (temporary or active)), "
            "(select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid())"
        ).fetchone()
    return row == (0, 0)


def confirmed(address: Address, slot: str) -> int | None:
    """Return the position up to which a slot's log was let go of; None where there is no such slot."""
    with connect(address) as session:
        row = session.execute(
            "select confirmed_flush_lsn::text from pg_replication_slots where slot_name = %s", (slot,)
        ).fetchone()
    return parse_position(row[0]) if row else None


def check_never_ahead(archive: Archive, address: Address, place: str) -> None:
    """Check that the server keeps all of the log that is not archived."""
    end = archive.state.streams.get(SOURCE)
    if end is None:
        return
    at = confirmed(address, slot_of(archive))
    assert at is not None, f"{place}: the slot is gone"
    assert at <= parse_position(end), f"{place}: the slot is beyond the archive's end"


def check_let_go(archive: Archive, address: Address, place: str) -> None:
    """Check that the slot stands at the archive's end, and that nothing else is left on the server."""
    name = slot_of(archive)
    assert left_on(address) == ([name], [name]), place
    at = confirmed(address, name)
    assert at is not None, place
    # A position on the first byte of a page lies behind the page's header, for who is to write there next.
    assert 0 <= parse_position(archive.state.streams[SOURCE]) - at <= PAGE_HEADER, place


def check_once(archive: Archive, place: str) -> None:
    """Check that each change is in the archive once, and those of a table in their order."""
    found: dict[str, list[tuple[int, int]]] = {}
    transactions: list[int] = []
    for placed in sorted(archive.state.blocks.values(), key=lambda each: each.commit):
        if placed.block.kind != "changes":
            continue
        for table in placed.block.tables:
            for file in table.files:
                for batch in read_batches(archive.store, file):
                    ids = [field_id(field) for field in batch.schema]
                    places = (batch.column(ids.index(number)).to_pylist() for number in (LSN, SEQ))
                    found.setdefault(table.id, []).extend(zip(*places, strict=True))
        if placed.block.transactions:
            for batch in read_batches(archive.store, placed.block.transactions.file):
                transactions += batch.column("lsn").to_pylist()
    for oid, changes in found.items():
        assert changes == sorted(set(changes)), f"{place}: table {oid}"
    assert transactions == sorted(set(transactions)), place
    assert {lsn for changes in found.values() for lsn, _ in changes} <= set(transactions), place


def check_whole(archive: Archive, place: str, *, streams: int = 1) -> None:
    """Check files, and that every position since the first backup can be restored.

    :param streams: how many were begun.
    """
    assert verify(archive, deep=True).damage == (), place
    opened = [each.block for each in archive.state.blocks.values() if each.block.stream and each.block.stream.opened]
    assert len(opened) == streams, place
    assert len({each.block.id for each in archive.state.blocks.values()}) == sum(
        len(commit.add) for commit in archive.commits()
    ), place
    assert len(covered_ranges(archive.state, SOURCE)) == streams, place


def rows_in(archive: Archive, at: str) -> Rows:
    """Return all rows of all tables as of a moment, by queries of the archive."""
    moment = target_resolution.resolve(archive.state, archive.store, SOURCE, at)
    labels = {parts.base.label: parts.stale for parts in moment.tables().values()}
    return {label: _rows_of(archive, moment, label) for label, stale in labels.items() if not stale}


def _rows_of(archive: Archive, moment: RecoveryTarget, label: str) -> list[str]:
    with TemporaryDirectory(prefix="holdfast-") as spill:
        query = Query(archive.store, moment, f"select * from {label}", memory_bytes=_MEMORY_BYTES, spill=Path(spill))
        found = [row for batch in query.rows() for row in _as_text(batch)]
    return sorted(found)


def _as_text(batch: pa.RecordBatch) -> list[str]:
    rows = zip(*(column.to_pylist() for column in batch.columns), strict=True)
    return ["(" + ",".join("" if value is None else str(value) for value in row) + ")" for row in rows]


def check_moments(archive: Archive, truth: Truth, place: str, *, every: int = 1) -> None:
    """Check that the archive tells of each moment what the server has told.

    Moments before the first backup are none of the archive's.

    :param every: so many moments apart, counted from the last.
    """
    first = covered_ranges(archive.state, SOURCE)[0].first
    for position, rows in truth.moments[::-1][::every][::-1]:
        if parse_position(position) < first:
            continue
        found = rows_in(archive, f"lsn:{position}")
        assert found, place
        for label, now in found.items():
            assert Counter(now) == Counter(rows[label]), f"{place}: {label} at {position}"
        # A table that came between two backups has rows from its first snapshot on.
        assert set(rows) - set(found) <= {"public.late"}, f"{place}, at {position}"
