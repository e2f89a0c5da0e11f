"""Reading of tables in a given snapshot, resumed after a killed driver.

Each task streams Arrow batches from the source to Parquet on the store and returns only file records. The process
that started this one holds the snapshot; so a driver that takes the place of one that was killed goes on from the
pieces that the run's records say are finished.
"""

from __future__ import annotations

import os
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.archive.files.data_files import new_attempt, read_file, table_folder, write_bytes
from holdfast.archive.format.block import Block, Coverage, SourceRecord
from holdfast.archive.format.resume import BegunBlock, FinishedPiece
from holdfast.archive.format.runs import read_unfinished
from holdfast.archive.format.versions import PACKED_SINCE
from holdfast.archive.history.table_bases import not_selected
from holdfast.common.errors import DamagedError, UsageError, sentence
from holdfast.common.value_limit import max_value_bytes
from holdfast.common.words import named
from holdfast.operations.job_process import SNAPSHOT_VARIABLE
from holdfast.postgresql.catalog.catalog import Catalog
from holdfast.postgresql.catalog.database_settings import trusted_only
from holdfast.postgresql.connection.reading_role import reading_address
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.dump.dump import begin_dump
from holdfast.postgresql.dump.dump_entries import schema_digest
from holdfast.postgresql.logical.stream import Seen, schema_fingerprint
from holdfast.postgresql.logical.stream import seen as look_at
from holdfast.postgresql.snapshot.export import Snapshot
from holdfast.postgresql.snapshot.owners_code import (
    owners_code,
    readable_columns,
    refuse_owners_code,
    unreadable_columns,
)
from holdfast.postgresql.snapshot.snapshot import open_snapshot
from holdfast.postgresql.snapshot.table_reader import cut
from sparkjobs.driver.application import database_address
from sparkjobs.tasks.packing import pack
from sparkjobs.tasks.pieces import PieceReader, is_packed, most_pieces, task_bytes
from sparkjobs.tasks.table_records import table_record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from holdfast.archive.format.block import Stream
    from holdfast.archive.format.document import FileRecord
    from holdfast.archive.format.state import State
    from holdfast.postgresql.catalog.table import Table
    from holdfast.postgresql.connection.address import Address
    from holdfast.postgresql.snapshot.table_reader import Piece
    from sparkjobs.driver.application import Job


@dataclass(frozen=True)
class Limits:
    """Limits on a backup's use of the source.

    :param connections: sessions that read at a time; a backup has up to three more, that read hardly anything.
    :param bandwidth: bytes a second of all of them together, as they are in memory here.
    """

    connections: int | None = None
    bandwidth: float | None = None

    def pace(self, job: Job, tasks: int) -> float | None:
        """Return the share of one session, in bytes a second, where so many tasks are read."""
        if self.bandwidth is None:
            return None
        return self.bandwidth / max(1, min(tasks, job.cores, self.connections or job.cores))


NO_LIMITS = Limits()


@dataclass(frozen=True)
class OpenBlock:
    """Block that is not committed yet, with the pieces of it that another driver has read."""

    begun: BegunBlock
    catalog: Catalog
    read: tuple[FinishedPiece, ...] = ()

    def split(self, pieces: Iterable[Piece]) -> tuple[list[Piece], list[FinishedPiece]]:
        """Return the pieces still to read, and those already read."""
        read = {(piece.table, piece.number, piece.first, piece.end): piece for piece in self.read}
        left, done = [], []
        for piece in pieces:
            found = read.get((piece.table.oid, piece.number, piece.first, piece.end))
            if found:
                done.append(found)
            else:
                left.append(piece)
        return left, done


class SnapshotReader:
    """Reader of tables in the snapshot that a job was given, into one block.

    :param state: of the archive, before the block.
    :param source: its name in the archive.
    :param refuse: is given what is in the snapshot before anything is stored, and raises where it must not be read.
    """

    def __init__(
        self,
        job: Job,
        state: State,
        source: str,
        limits: Limits,
        *,
        refuse: Callable[[Catalog, Snapshot], None] = lambda catalog, snapshot: None,
    ) -> None:
        self._job = job
        self._source = source
        self._limits = limits
        self._packs = state.format >= PACKED_SINCE
        self._address, self.snapshot = reading_address(database_address("source")), given_snapshot()
        self._limit = max_value_bytes()
        job.start("sparkjobs.tasks.pieces")
        self.block = _go_on(job, state, self.snapshot) or _begin(
            job, state, source, self._address, self.snapshot, refuse
        )

    def seen(self) -> Seen:
        """Return the point of reference for finding later changes of the source's objects."""
        with open_snapshot(self._address, self.snapshot) as seen:
            return look_at(seen.session)

    def read(self, tables: Sequence[Table]) -> list[FinishedPiece]:
        """Read tables, and return all their pieces."""
        job, block, address, snapshot = self._job, self.block, self._address, self.snapshot
        with connect(address) as now:
            found = owners_code(now)
        pieces = [piece for table in tables for piece in cut(table, queries=table.oid not in found)]
        queried = {piece.table.oid for piece in pieces if piece.by_query or piece.table.has_stored}
        refuse_owners_code(found, queried)  # there was nothing when the block was begun, or it would not be among them
        left, done = block.split(pieces)
        if done:
            job.say(f"going on: {len(done)} of {len(done) + len(left)} pieces were read")
        folders = {table.oid: table_folder(self._source, str(table.oid), block.begun.id) for table in tables}
        cores = job.cores
        room, most = task_bytes(left, cores=cores), most_pieces(len(left), cores=cores)
        tasks = pack(left, lambda piece: piece.weight, room=room, most=most)
        pace = self._limits.pace(job, len(tasks))
        packs = table_folder(self._source, "packs", block.begun.id) if self._packs and is_packed(left) else None
        read = job.map(
            "reading tables",
            tasks,
            PieceReader(job.store, address, snapshot, folders, packs=packs, max_value_bytes=self._limit, pace=pace),
            estimated_rows=sum(table.estimated_rows for table in tables) - sum(piece.rows for piece in done),
            at_once=self._limits.connections,
            on_results=job.log.finished,
        )
        # It is still held, so no table was changed while it was read.
        with open_snapshot(address, snapshot) as seen, connect(address) as now:
            seen.check_labels(now)
            refuse_owners_code(owners_code(now), queried)
        return [*done, *read]

    def describe(
        self, read: Iterable[FinishedPiece], stream: Stream | None, *, gap: str = "", supplement: bool = False
    ) -> Block:
        """Return the block that records the read pieces.

        :param stream: whose changes can be joined to it.
        :param gap: why it begins a new stream.
        :param supplement: it is of tables that start over, among others that are followed on.
        """
        begun, catalog, snapshot = self.block.begun, self.block.catalog, self.snapshot
        files: dict[int, list[FileRecord]] = {}
        packs: dict[str, FileRecord] = {}
        for piece in sorted(read, key=lambda piece: piece.number):
            files.setdefault(piece.table, []).extend(piece.files)
            packs |= {pack.path: pack for pack in piece.packs}
        skipped = [table for table in catalog.with_rows() if table.oid not in files]
        left_out = [] if supplement else skipped
        unlogged = tuple(table.label for table in catalog.tables if table.persistence == "u" and table.oid in files)
        if unlogged:
            self._job.say(f"unlogged, so that a crash of a server empties them: {named(unlogged)}")
        return Block(
            id=begun.id,
            kind="snapshot",
            run=self._job.run,
            source=SourceRecord(
                name=self._source,
                kind="postgresql",
                database=catalog.database,
                version=str(catalog.server_version),
                system_identifier=snapshot.system_identifier,
                timeline=snapshot.timeline,
                database_oid=snapshot.database_oid,
            ),
            covers=Coverage(
                to_position=snapshot.position,
                from_time=snapshot.taken_at,
                to_time=snapshot.taken_at,
                exact=snapshot.exact,
            ),
            tables=tuple(table_record(table, files[table.oid]) for table in catalog.with_rows() if table.oid in files),
            packs=tuple(packs[path] for path in sorted(packs)),
            catalog=begun.catalog,
            schema_dump=begun.schema_dump,
            whole=not skipped,
            others=tuple(table.oid for table in left_out),
            not_included=begun.not_included + tuple(not_selected(table.label) for table in left_out),
            unlogged=unlogged,
            stream=stream,
            supplement=supplement,
            gap=gap,
            schema_version=begun.schema_version,
            schema_digest=begun.schema_digest,
        )


def given_snapshot() -> Snapshot:
    text = os.environ.get(SNAPSHOT_VARIABLE)
    if text is None:
        raise UsageError("start this job with 'holdfast backup' or its Airflow operator: they hold its snapshot")
    return Snapshot.from_json(text)


def _begin(
    job: Job,
    state: State,
    source: str,
    address: Address,
    snapshot: Snapshot,
    refuse: Callable[[Catalog, Snapshot], None],
) -> OpenBlock:
    job.log.progress("reading the schema")
    with connect(address) as now:
        found = owners_code(now)
    with (
        open_snapshot(address, snapshot) as seen,
        begin_dump(address, snapshot, server_version=seen.session.info.server_version) as dumped,
    ):
        catalog, not_included, version = seen.catalog, seen.not_included, schema_fingerprint(seen.session)
        refuse(catalog, snapshot)
        recorded, unread = readable_columns(catalog, found), unreadable_columns(catalog, found)
        if catalog.database_settings and (guarded := trusted_only(seen.session, catalog.database_settings)):
            job.say(guarded)
        dump, warnings = dumped()
    block_id, attempt = uuid.uuid4().hex, new_attempt()
    folder = table_folder(source, "schema", block_id)
    begun = BegunBlock(
        id=block_id,
        snapshot=snapshot.to_json(),
        started_from=state.ends.get(source),
        catalog=write_bytes(job.store, f"{folder}/catalog-{attempt}.json", recorded.model_dump_json().encode()),
        schema_dump=write_bytes(job.store, f"{folder}/schema-{attempt}.dump", dump),
        not_included=(*not_included, *unread, *warnings),
        schema_version=version,
        schema_digest=schema_digest(catalog, dump),
    )
    job.log.begin(begun)
    return OpenBlock(begun, recorded)


def _go_on(job: Job, state: State, snapshot: Snapshot) -> OpenBlock | None:
    """Return the unfinished block of a killed driver of this run, if this snapshot continues it."""
    left = read_unfinished(job.store, job.run) if job.log.goes_on else None
    if left is None or left.block.snapshot != snapshot.to_json():
        return None
    if left.block.id in state.abandoned:
        job.say(f"starting again: block {left.block.id} was abandoned, and its files may be gone")
        return None
    try:
        catalog = Catalog.from_bytes(read_file(job.store, left.block.catalog), left.block.catalog.path)
        read_file(job.store, left.block.schema_dump)
    except DamagedError as error:
        job.say(f"starting again: {sentence(error)}")
        return None
    whole, broken = left.split(job.store)
    if broken:
        job.say(f"the files of {len(broken)} finished pieces are missing, or not whole: these are read again")
    job.log.go_on(left.block)
    return OpenBlock(left.block, catalog, whole)
