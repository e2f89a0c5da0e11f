"""Restores to a moment: the same changes in few and in many blocks, beside a restore that needs none."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from bench.changes import inline_jobs
from bench.support import workload
from bench.support.figures import Comparison
from bench.support.processes import check_rows
from holdfast.archive import Archive
from holdfast.common.lsn import parse_position
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from holdfast.storage import open_store
from sparkjobs.driver import log_windows

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import Self

    from bench.support.figures import Times
    from bench.support.holdfast_command import HoldfastCommand
    from holdfast.postgresql.connection.server import PostgresServer
    from holdfast.storage import ObjectStore

TABLES = 20
ROWS = 5_000
"""Of each table."""

BLOCKS = (1, 10, 100)
PLAIN = "restore, the rows alone"


def in_blocks(count: int) -> str:
    """Return the name of the series of an archive with about so many blocks of changes."""
    return f"restore to a moment, {count} {'block' if count == 1 else 'blocks'} of changes"


COMPARISONS = (
    Comparison("restore, 10 blocks of the same changes against 1", in_blocks(10), in_blocks(1), 0.8),
    Comparison("restore, 100 blocks of the same changes against 1", in_blocks(100), in_blocks(1), 0.8),
    Comparison("restore, 1 block of changes against the rows alone", in_blocks(1), PLAIN),
)

_DATABASE = "bench_moments"
_TARGET = "bench_moments_back"
_STEPS = 200
_PART = 4
"""Every so many rows one is updated, once."""

_TABLE = "create table public.t{} (id int primary key, name text, amount numeric(12,2), at timestamptz)"
_FILL = "insert into public.t{} select i, md5(i::text), i / 7.0, '2026-01-01' from generate_series(1, {}) i"
_UPDATE = "update public.t{} set amount = amount + 1, name = md5(name) where id % {} = 0 and id / {} % {} = {}"


class Moments:
    """Takes the times of restores; a context manager that drops the slots and the databases.

    :param folder: for the archives.
    :param blocks: how many blocks of changes each has, by the name of its series.
    """

    def __init__(
        self,
        server: PostgresServer,
        command: HoldfastCommand,
        folder: Path,
        *,
        tables: int = TABLES,
        rows: int = ROWS,
        blocks: tuple[int, ...] = BLOCKS,
    ) -> None:
        self._server = server
        self._command = command
        self._folder = folder
        self._tables = tables
        self._rows = rows
        self._address = Address(server.url(_DATABASE), server.password)
        self.blocks: dict[str, int] = {}
        workload.create_database(server, _DATABASE)
        self._make_tables()
        stores = {count: self._archive(in_blocks(count)) for count in blocks}
        for store in stores.values():
            self._back_up(store, "changes")
        wal = self._change()
        for count, store in stores.items():
            self.blocks[in_blocks(count)] = self._archive_changes(store, wal // count)
        self._back_up(self._archive(PLAIN), "full")
        self.blocks[PLAIN] = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        """Drop all of it but the archives."""
        workload.drop_slots(self._server, _DATABASE)
        workload.drop_database(self._server, _DATABASE)

    @property
    def ways(self) -> list[Callable[[], Times]]:
        """All that is measured."""
        return [partial(self._restore, name) for name in self.blocks]

    def _make_tables(self) -> None:
        with connect(self._address) as session:
            for number in range(self._tables):
                session.execute(_TABLE.format(number).encode())
                session.execute(_FILL.format(number, self._rows).encode())

    def _archive(self, name: str) -> ObjectStore:
        return Archive.create(open_store(str(self._place(name))), name="bench").store

    def _place(self, name: str) -> Path:
        return self._folder / name.replace(" ", "-").replace(",", "")

    def _change(self) -> int:
        """Update rows of all tables, again and again others; return the bytes of the log that came of it."""
        with connect(self._address) as session:
            start = self._position()
            for step in range(_STEPS):
                session.execute("begin")
                for number in range(self._tables):
                    session.execute(_UPDATE.format(number, _PART, _PART, _STEPS, step).encode())
                session.execute("commit")
            return self._position() - start

    def _position(self) -> int:
        with connect(self._address) as session:
            row = session.execute("select pg_current_wal_insert_lsn()::text").fetchone()
        return parse_position(str(row[0])) if row else 0

    def _archive_changes(self, store: ObjectStore, window: int) -> int:
        """Back the changes up in windows of about so many bytes of log; return how many blocks they became."""
        usual = log_windows.WINDOW_BYTES
        log_windows.WINDOW_BYTES = min(usual, window + 1)
        try:
            return int(self._back_up(store, "changes")["commits"])
        finally:
            log_windows.WINDOW_BYTES = usual

    def _back_up(self, store: ObjectStore, kind: str) -> dict[str, Any]:
        run = f"{kind}-{Archive.open(store).state.sequence}"
        return inline_jobs.back_up(store, "bench", self._address, kind=kind, run=run)

    def _restore(self, name: str) -> Times:
        workload.create_database(self._server, _TARGET)
        try:
            done = self._command.restore(self._place(name), _TARGET)
            found = sum(workload.count(self._server, _TARGET, f"public.t{number}") for number in range(self._tables))
        finally:
            workload.drop_database(self._server, _TARGET)
        check_rows(name, found, self._tables * self._rows)
        return {name: done.job}
