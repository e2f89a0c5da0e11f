"""How fast the content hash is, on one core: by the server, and from Arrow."""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from bench.support.processes import ProgramError
from bench.support.workload import SOURCE
from holdfast.archive import Archive
from holdfast.archive.files.blocks import read_batches
from holdfast.archive.files.data_files import read_file
from holdfast.postgresql.catalog.catalog import Catalog
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.restore.rows.load import content_hash
from holdfast.postgresql.values.content_hash import ContentHash, digest
from holdfast.storage import open_store

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.postgresql.connection.server import PostgresServer

WANTED = 1_000_000
_FILES = 2
"""Files of the archive that are hashed: what they hold is in memory before the clock starts."""


@dataclass(frozen=True)
class Rate:
    """Rows a second on one core.

    :param wanted: at least.
    """

    what: str
    rows_a_second: float
    wanted: float = WANTED

    @property
    def reached(self) -> bool:
        """Say whether it is fast enough."""
        return self.rows_a_second >= self.wanted


def measure(server: PostgresServer, archive: Path, tries: int) -> list[Rate]:
    """Hash the large table on both sides, and make sure that they agree.

    :param archive: holds a backup of it.
    :param tries: the best one counts.
    :raises ProgramError: they differ.
    """
    store = open_store(str(archive))
    (placed,) = Archive.open(store).state.blocks.values()
    block = placed.block
    record = next(table for table in block.tables if table.name == "sales")
    catalog = Catalog.model_validate_json(read_file(store, block.catalog))
    table = next(table for table in catalog.tables if str(table.oid) == record.id)
    batches = [batch for file in islice(record.files, _FILES) for batch in read_batches(store, file)]
    with connect(Address.parse(server.url(SOURCE), server.password)) as session:
        session.execute("set max_parallel_workers_per_gather = 0")
        best_there = best_here = 0.0
        for _ in range(tries):
            started = time.perf_counter()
            found = content_hash(session, table)
            best_there = max(best_there, found.rows / (time.perf_counter() - started))
            if str(found) != record.digest:
                raise ProgramError(f"the server's content hash is {found}, the archive's {record.digest}")
            started = time.perf_counter()
            rows = sum((digest(table.columns, batch) for batch in batches), ContentHash(0, 0)).rows
            best_here = max(best_here, rows / (time.perf_counter() - started))
    return [
        Rate("content hash by PostgreSQL, one process", best_there),
        Rate("content hash from Arrow, one process", best_here),
    ]
