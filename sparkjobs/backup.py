"""Back up a PostgreSQL database: one snapshot, many Spark tasks, one commit.

Each task streams Arrow batches from the source to Parquet on the store and returns only file records.
"""

from __future__ import annotations

import argparse
import sys
import time
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.archive import Archive, Change
from holdfast.archive.blocks import new_attempt, table_folder, write_bytes, write_parquet
from holdfast.archive.model import Block, Coverage, FileRecord, SourceRecord, TableRecord, summary
from holdfast.sources.postgresql.decode import Decoder, max_value_bytes
from holdfast.sources.postgresql.dump import dump_schema
from holdfast.sources.postgresql.export import Snapshot
from holdfast.sources.postgresql.hashing import ContentHash
from holdfast.sources.postgresql.obstacles import choice_obstacles, refuse
from holdfast.sources.postgresql.read import PIECE_BYTES, Piece, cut, open_reader
from holdfast.sources.postgresql.snapshot import HeldSnapshot, hold_snapshot
from sparkjobs.driver import Job, database_address, pack, run_application

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import pyarrow as pa

    from holdfast.sources.postgresql.address import Address
    from holdfast.storage import ObjectStore

    Reporter = Callable[[int, int], None]


class PieceReader:
    """The work of one Spark task: read a bundle of pieces and write each to files of its own.

    Travels to the worker in the task's closure, with the password and the store's settings: never through Spark's
    configuration.
    """

    def __init__(
        self,
        store: ObjectStore,
        address: Address,
        snapshot: Snapshot,
        folders: dict[int, str],
        *,
        max_value_bytes: int,
        pace: float | None,
    ) -> None:
        self._max_value_bytes = max_value_bytes
        self._pace = pace
        self._store = store
        self._address = address
        self._snapshot = snapshot
        self._folders = folders

    def __call__(self, pieces: Sequence[Piece], report: Reporter) -> Iterator[tuple[int, int, FileRecord]]:
        """Yield (table oid, piece number, file record)."""
        tables = list({piece.table.oid: piece.table for piece in pieces}.values())
        with open_reader(self._address, self._snapshot, tables) as reader:
            for piece in pieces:
                decoder = Decoder(piece.table.columns, max_value_bytes=self._max_value_bytes)
                digest = ContentHash(0, 0)

                def count(batch: pa.RecordBatch, decoder: Decoder = decoder) -> None:
                    nonlocal digest
                    digest += decoder.digest(batch)

                for record in write_parquet(
                    self._store,
                    f"{self._folders[piece.table.oid]}/{piece.number:05d}",
                    decoder.schema,
                    paced(reader.batches(piece, decoder), self._pace),
                    key=piece.table.key[0] if piece.table.key else None,
                    on_batch=count,
                ):
                    report(record.rows, record.size)
                    yield piece.table.oid, piece.number, record.model_copy(update={"digest": str(digest)})
                    digest = ContentHash(0, 0)


def paced(batches: Iterable[pa.RecordBatch], pace: float | None) -> Iterator[pa.RecordBatch]:
    """Hand batches on no faster than so many bytes a second on average; None: as fast as they come."""
    started = time.monotonic()
    done = 0
    for batch in batches:
        yield batch
        if pace is not None:
            done += batch.nbytes
            time.sleep(max(0.0, done / pace - (time.monotonic() - started)))


@dataclass(frozen=True)
class Limits:
    """How much of the source a backup may use.

    :param connections: sessions that read at a time; a backup has up to three more, that read hardly anything.
    :param bandwidth: bytes a second of all of them together, as they are in memory here.
    """

    connections: int | None = None
    bandwidth: float | None = None

    def pace(self, job: Job, tasks: int) -> float | None:
        """Return the share of one session, in bytes a second, where so many tasks are read."""
        if self.bandwidth is None:
            return None
        return self.bandwidth / max(1, min(tasks, self.connections or job.spark.defaultParallelism))


def back_up(
    job: Job, source: str, globs: Sequence[str], exclude: Sequence[str], limits: Limits = Limits()
) -> dict[str, Any]:
    """Make a full backup and return its summary."""
    started = time.monotonic()
    archive = Archive.open(job.store)
    expected = {source: archive.state.ends.get(source)}
    address = database_address("source")
    limit = max_value_bytes()
    block_id = uuid.uuid4().hex
    _ = job.spark
    job.log.progress("taking a snapshot")
    with hold_snapshot(address) as held:
        tables = held.catalog.with_rows(globs, exclude)
        refuse(choice_obstacles(held.catalog, tables, standby=held.snapshot.standby))
        job.log.progress("reading the schema")
        dump, warnings = dump_schema(address, held.snapshot, server_version=held.catalog.server_version)
        folders = {table.oid: table_folder(source, str(table.oid), block_id) for table in tables}
        pieces = [piece for table in tables for piece in cut(table)]
        tasks = pack(pieces, lambda piece: piece.weight, room=PIECE_BYTES)
        pace = limits.pace(job, len(tasks))
        found = job.map(
            "reading tables",
            tasks,
            PieceReader(job.store, address, held.snapshot, folders, max_value_bytes=limit, pace=pace),
            estimated_rows=sum(table.estimated_rows for table in tables),
            at_once=limits.connections,
        )
        job.log.progress("committing")
        block = _describe(job, source, block_id, held, dump, found)
    block = block.model_copy(update={"not_included": block.not_included + warnings})
    change = Change(kind="backup", add=(block,), expected_ends=expected)
    with job.last_step():
        commit = archive.add(lambda state: change, check=job.check, fence=job.locks.fence)
    return {
        "commit": commit.sequence,
        **summary(block),
        "seconds": round(time.monotonic() - started, 3),
        "snapshot_note": held.snapshot.note,
    }


def _describe(
    job: Job,
    source: str,
    block_id: str,
    held: HeldSnapshot,
    dump: bytes,
    found: Sequence[tuple[int, int, FileRecord]],
) -> Block:
    """Write the schema files and put together what the commit says of this backup."""
    folder = table_folder(source, "schema", block_id)
    attempt = new_attempt()
    catalog = write_bytes(job.store, f"{folder}/catalog-{attempt}.json", held.catalog.model_dump_json().encode())
    schema_dump = write_bytes(job.store, f"{folder}/schema-{attempt}.dump", dump)
    files: dict[int, list[tuple[int, FileRecord]]] = {}
    for oid, number, record in found:
        files.setdefault(oid, []).append((number, record))
    snapshot = held.snapshot
    skipped = [table.label for table in held.catalog.with_rows() if table.oid not in files]
    return Block(
        id=block_id,
        kind="snapshot",
        run=job.run,
        source=SourceRecord(
            name=source,
            kind="postgresql",
            database=held.catalog.database,
            version=str(held.catalog.server_version),
            system_identifier=snapshot.system_identifier,
            timeline=snapshot.timeline,
        ),
        covers=Coverage(
            to_position=snapshot.position,
            from_time=snapshot.taken_at,
            to_time=snapshot.taken_at,
            exact=snapshot.exact,
        ),
        tables=tuple(
            _table_record(table.oid, table.table_schema, table.name, files[table.oid])
            for table in held.catalog.with_rows()
            if table.oid in files
        ),
        catalog=catalog,
        schema_dump=schema_dump,
        whole=not skipped,
        not_included=held.not_included + tuple(f"rows of {label}: not selected" for label in skipped),
    )


def _table_record(oid: int, schema: str, name: str, found: list[tuple[int, FileRecord]]) -> TableRecord:
    records = [record for _, record in sorted(found, key=lambda pair: (pair[0], pair[1].path))]
    total = sum((ContentHash.parse(record.digest or "0:0") for record in records), ContentHash(0, 0))
    return TableRecord(
        id=str(oid), table_schema=schema, name=name, rows=total.rows, digest=str(total), files=tuple(records)
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the arguments and run."""
    parser = argparse.ArgumentParser(prog="backup.py", description="Back up a database (started by holdfast).")
    parser.add_argument("--archive", required=True)
    parser.add_argument("--source", required=True)
    parser.add_argument("--run", required=True)
    parser.add_argument("--tables", action="append", default=[])
    parser.add_argument("--exclude", action="append", default=[])
    parser.add_argument("--connections", type=int)
    parser.add_argument("--bandwidth", type=float)
    parser.add_argument("--kind", choices=("auto", "full"), default="auto")
    given = parser.parse_args(arguments)
    return run_application(
        "backup",
        archive=given.archive,
        run=given.run,
        work=lambda job: back_up(
            job, given.source, given.tables, given.exclude, Limits(given.connections, given.bandwidth)
        ),
    )


if __name__ == "__main__":
    sys.exit(main())
