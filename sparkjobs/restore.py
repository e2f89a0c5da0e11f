"""Restore a PostgreSQL database: schema, rows in parallel, indexes and constraints, then compare.

Each Spark task checks a file's checksum and streams its rows into the target by COPY. Nothing counts as
restored before row counts and content hashes of every table, computed by the target, equal the archive's.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from typing import TYPE_CHECKING, Any

from holdfast.archive import Archive
from holdfast.archive.blocks import read_batches, read_file
from holdfast.archive.model import FileRecord, iso
from holdfast.archive.points import only_source, resolve
from holdfast.errors import DamagedError
from holdfast.sources.postgresql import load
from holdfast.sources.postgresql.catalog import Catalog, Table
from holdfast.sources.postgresql.dump import restore_post_data, restore_pre_data
from holdfast.sources.postgresql.hashing import ContentHash
from holdfast.sources.postgresql.session import connect
from holdfast.storage import open_store
from sparkjobs.driver import Job, database_address, pack, run_application

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from holdfast.archive.model import Block
    from holdfast.archive.state import Placed
    from holdfast.sources.postgresql.address import Address

    Reporter = Callable[[int, int], None]

_TASK_BYTES = 8 << 20
"""How many stored bytes one task loads, unless a single file is larger."""

_SESSIONS = max(2, os.cpu_count() or 2)


class FileLoader:
    """The work of one Spark task: load a few files. Travels in the task's closure, with the password."""

    def __init__(self, archive: str, address: Address) -> None:
        self._archive = archive
        self._address = address

    def __call__(self, files: Sequence[tuple[Table, FileRecord]], report: Reporter) -> Iterator[int]:
        """Yield the rows loaded from each file."""
        store = open_store(self._archive)
        with connect(self._address) as session:
            for table, record in files:
                rows = load.load_file(session, table, record.path, read_batches(store, record))
                report(rows, record.size)
                yield rows


def restore(job: Job, source: str | None, at: str) -> dict[str, Any]:
    """Restore and return what was restored."""
    started = time.monotonic()
    archive = Archive.open(job.store)
    name = only_source(archive.state, source)
    placed = resolve(archive.state, name, at)
    block = placed.block
    address = database_address("target")
    catalog = Catalog.model_validate_json(read_file(job.store, block.catalog))
    with load.claim_target(address, catalog) as session:
        _restore_into(job, address, session, block, catalog)
    return _summary(name, placed, time.monotonic() - started)


def _restore_into(job: Job, address: Address, session: Any, block: Block, catalog: Catalog) -> None:
    if block.schema_dump is None:
        raise DamagedError(f"block {block.id} holds no schema dump: its schema must be created by hand")
    _ = job.spark
    version = session.info.server_version
    dump = read_file(job.store, block.schema_dump)
    job.log.progress("creating tables")
    load.create_ledger(session)  # its schema marks the target as unfinished until the very end
    restore_pre_data(address, dump, server_version=version)
    tables = {str(table.oid): table for table in catalog.tables}
    files = [(tables[record.id], file) for record in block.tables for file in record.files if file.rows]
    tasks = pack(files, lambda pair: pair[1].size, room=_TASK_BYTES)
    job.map("loading rows", tasks, FileLoader(job.store.url, address), estimated_rows=block.rows)
    job.check()
    load.set_sequences(session, catalog)
    job.log.progress("building indexes and constraints", rows=block.rows, size=block.size)
    restore_post_data(address, dump, server_version=version, jobs=_SESSIONS)
    job.check()
    job.log.progress("refreshing views and statistics", rows=block.rows, size=block.size)
    load.refresh_views(session, catalog)
    load.analyze(session)
    job.log.progress("comparing with the archive", rows=block.rows, size=block.size)
    expected = {int(record.id): ContentHash.parse(record.digest) for record in block.tables}
    load.compare(address, expected, [tables[record.id] for record in block.tables], sessions=_SESSIONS)
    load.drop_ledger(session)


def _summary(name: str, placed: Placed, seconds: float) -> dict[str, Any]:
    block = placed.block
    return {
        "commit": placed.commit,
        "source": name,
        "block": block.id,
        "tables": len(block.tables),
        "rows": block.rows,
        "bytes": block.size,
        "restored_to": iso(block.covers.to_time),
        "position": block.covers.to_position,
        "seconds": round(seconds, 3),
        "equal": True,
        "not_included": list(block.not_included),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the arguments and run."""
    parser = argparse.ArgumentParser(prog="restore.py", description="Restore a database (started by holdfast).")
    parser.add_argument("--archive", required=True)
    parser.add_argument("--run", required=True)
    parser.add_argument("--source")
    parser.add_argument("--at", default="latest")
    given = parser.parse_args(arguments)
    return run_application(
        "restore",
        archive=given.archive,
        run=given.run,
        work=lambda job: restore(job, given.source, given.at),
    )


if __name__ == "__main__":
    sys.exit(main())
