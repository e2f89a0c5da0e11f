"""One stream of changes: ours beside what PostgreSQL needs to decode it and do nothing, and its own client."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from bench.support import workload
from bench.support.figures import Comparison
from bench.support.processes import ProgramError, check_rows, run
from holdfast.common.lsn import parse_position
from holdfast.common.value_limit import MAX_VALUE_BYTES
from holdfast.postgresql.catalog.catalog_queries import read_catalog, read_tables
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.logical.peek import DECODING_MEMORY, peek_query
from holdfast.storage import open_store
from sparkjobs.tasks.changes import ChangeReader, WindowTask

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import Self

    import psycopg

    from bench.support.figures import Times
    from bench.support.holdfast_command import HoldfastCommand, Measured
    from holdfast.postgresql.connection.server import PostgresServer

JOB = "holdfast backup --kind changes"
READ = "holdfast, changes decoded and written"
BARE = "count(*) of the slot's changes, binary"
BARE_MEMORY = "count(*) of the slot's changes, binary, with the memory that ours takes"
BARE_TEXT = "count(*) of the slot's changes, text"
RECEIVED = "pg_recvlogical to a file over TCP"
MIXED = ", half of the log unpublished"
"""Follows the name of a series of the stream that leaves half of the log out."""

COMPARISONS = tuple(
    each
    for suffix in ("", MIXED)
    for each in (
        Comparison(f"changes against decoding alone{suffix}", JOB + suffix, BARE + suffix, 0.45),
        Comparison(f"changes against pg_recvlogical{suffix}", JOB + suffix, RECEIVED + suffix, 1.5),
        Comparison(f"the same without schema and commit, against decoding alone{suffix}", READ + suffix, BARE + suffix),
        Comparison(f"the same, which has the memory that ours takes{suffix}", READ + suffix, BARE_MEMORY + suffix),
        Comparison(f"decoding alone, text against binary{suffix}", BARE_TEXT + suffix, BARE + suffix),
    )
)

DATABASE = "bench_stream"
_ROWS_AT_ONCE = 500_000
"""In one transaction."""

# Without a key its changes are not followed.
_UNPUBLISHED = "create table public.unpublished as select * from public.sales"
_SLOTS = "select slot_name::text from pg_replication_slots where database = %s"


class ChangeStream:
    """Takes the times of one round, all of the same changes; a context manager that drops the slot.

    :param folder: of an archive, which is made; its first backup, of an empty table, begins the stream.
    :param rows: inserted into the published table; where `mixed`, half of them into one that is not published.
    :param wal: bytes of the log that are decoded.
    """

    def __init__(
        self, server: PostgresServer, command: HoldfastCommand, folder: Path, rows: int, *, mixed: bool = False
    ) -> None:
        self._server = server
        self._command = command
        self._folder = folder
        self._rows = rows // 2 if mixed else rows
        self._suffix = MIXED if mixed else ""
        workload.create_database(server, DATABASE)
        workload.create_table(server, DATABASE)
        workload.add_key(server, DATABASE)
        self._address = Address(server.url(DATABASE), server.password)
        with connect(self._address) as session:
            if mixed:
                session.execute(_UNPUBLISHED.encode())
            command.init(folder)
            command.backup(folder, DATABASE, kind="changes")
            ((self._slot,),) = session.execute(_SLOTS, (DATABASE,)).fetchall()
            start = _position(session)
            for first in range(1, self._rows + 1, _ROWS_AT_ONCE):
                last = min(first + _ROWS_AT_ONCE - 1, self._rows)
                workload.insert_rows(session, first, last)
                if mixed:
                    workload.insert_rows(session, first, last, table="public.unpublished")
            self._upto = _position(session)
            self._catalog = read_catalog(session, read_tables(session))
        self.wal = parse_position(self._upto) - parse_position(start)
        workload.settle(server)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        """Drop the slot, and the database with it."""
        workload.drop_slots(self._server, DATABASE)
        workload.drop_database(self._server, DATABASE)

    @property
    def measured(self) -> dict[str, tuple[int, int]]:
        """Bytes of the log and rows of each of its series, by name."""
        names = (JOB, READ, BARE, BARE_MEMORY, BARE_TEXT, RECEIVED)
        return {name + self._suffix: (self.wal, self._rows) for name in names}

    @property
    def ways(self) -> list[Callable[[Path], Times]]:
        """All that is measured; the last one lets go of the changes."""
        return [self.bare, self.bare_memory, self.bare_text, self.receive, self.read, self.holdfast]

    def holdfast(self, folder: Path) -> Times:
        """Back the changes up by the command."""
        return {JOB + self._suffix: self.back_up().job}

    def back_up(self, watch: Callable[[int], None] | None = None) -> Measured:
        """Back the changes up by the command; there are none afterwards."""
        done = self._command.backup(self._folder, DATABASE, watch, kind="changes")
        check_rows(JOB, done.rows, self._rows)
        return done

    def read(self, folder: Path) -> Times:
        """Decode and write to files in a folder, in this process and in one window."""
        read = ChangeReader(
            open_store(str(folder / "changes")),
            self._address,
            stream=self._slot,
            most_changes=None,
            source="bench",
            before=self._catalog,
            after=self._catalog,
            followed=frozenset(table.oid for table in self._catalog.tables),
            max_value_bytes=MAX_VALUE_BYTES,
            packs=True,
        )
        started = time.monotonic()
        (window,) = read(WindowTask("block", self._upto), lambda rows, size: None)
        seconds = time.monotonic() - started
        check_rows(READ, sum(table.rows for table in window.tables), self._rows)
        return {READ + self._suffix: seconds}

    def bare(self, folder: Path) -> Times:
        """Decode in the server alone, binary."""
        return {BARE + self._suffix: self._count(binary=True)}

    def bare_memory(self, folder: Path) -> Times:
        """The same with transactions kept in memory, as ours has it."""
        return {BARE_MEMORY + self._suffix: self._count(DECODING_MEMORY, binary=True)}

    def bare_text(self, folder: Path) -> Times:
        """Decode in the server alone, with the options that ours has, but not its memory."""
        return {BARE_TEXT + self._suffix: self._count(binary=False)}

    def receive(self, folder: Path) -> Times:
        """Have PostgreSQL's client write the stream to a file; it moves a copy of the slot."""
        copy = f"{self._slot}_copy"
        file = folder / "received"
        with connect(self._address) as session:
            session.execute("select pg_copy_logical_replication_slot(%s, %s)", (self._slot, copy))
        try:
            program = [str(self._server.programs / "pg_recvlogical"), "-d", self._server.url(DATABASE)]
            options = ["-o", "proto_version=1", "-o", f"publication_names={self._slot}", "-o", "binary=true"]
            where = ["--slot", copy, "--start", "--no-loop", "--endpos", self._upto, "-f", str(file)]
            done = run([*program, *options, *where], {"PGPASSWORD": self._server.password})
        finally:
            with connect(self._address) as session:
                session.execute("select pg_drop_replication_slot(%s)", (copy,))
        if file.stat().st_size < self._rows * _LEAST_MESSAGE:
            raise ProgramError(f"{RECEIVED} brought {file.stat().st_size:,} bytes for {self._rows:,} rows")
        file.unlink()
        return {RECEIVED + self._suffix: done.seconds}

    def _count(self, *settings: str, binary: bool) -> float:
        query = peek_query(self._slot, self._slot, self._upto, None, what="count(*)", binary=binary)
        with connect(self._address) as session:
            for each in settings:
                session.execute(each.encode())
            started = time.monotonic()
            found = session.execute(query.encode()).fetchone()
            seconds = time.monotonic() - started
        if found is None or found[0] < self._rows:
            raise ProgramError(f"{BARE} brought {found} messages for {self._rows:,} rows")
        return seconds


_LEAST_MESSAGE = 40
"""Bytes that a row of the table has at least, as a message."""


def _position(session: psycopg.Connection[tuple[object, ...]]) -> str:
    """Return the end of the log, all of it written: what follows is of the next transaction."""
    session.execute("select pg_catalog.txid_current()")
    found = session.execute("select pg_catalog.pg_switch_wal(), pg_catalog.pg_current_wal_flush_lsn()::text").fetchone()
    return str(found[1]) if found else ""
