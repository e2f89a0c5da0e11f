"""Back up a PostgreSQL database: one snapshot, many Spark tasks, one commit.

Each task streams Arrow batches from the source to Parquet on the store and returns only file records. The process
that started this one holds the snapshot; so a driver that takes the place of one that was killed goes on from the
pieces that the run's records say are finished.
"""

from __future__ import annotations

import argparse
import os
import sys
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.archive import Archive, Change
from holdfast.archive.files import new_attempt, read_file, table_folder, write_bytes
from holdfast.archive.live import not_selected
from holdfast.archive.model import PACKED_SINCE, Block, Coverage, SourceRecord, TableRecord, summary
from holdfast.archive.runs import read_unfinished
from holdfast.archive.unfinished import BegunBlock, FinishedPiece
from holdfast.errors import DamagedError, RefusedError, UsageError, sentence
from holdfast.following import Decision
from holdfast.jobs import DECISION_VARIABLE, SNAPSHOT_VARIABLE
from holdfast.replication.backing_up import QUORUM_TIMEOUT_S, Wish
from holdfast.sources.postgresql.catalog import Catalog
from holdfast.sources.postgresql.decode import max_value_bytes
from holdfast.sources.postgresql.dump import begin_dump
from holdfast.sources.postgresql.export import Snapshot
from holdfast.sources.postgresql.obstacles import choice_obstacles, named, refuse
from holdfast.sources.postgresql.read import cut
from holdfast.sources.postgresql.schema_digest import schema_digest
from holdfast.sources.postgresql.session import connect
from holdfast.sources.postgresql.snapshot import open_snapshot
from holdfast.sources.postgresql.stream import Seen, schema_fingerprint
from holdfast.sources.postgresql.stream import seen as look_at
from sparkjobs.driver import Job, database_address, run_application
from sparkjobs.pieces import PieceReader, is_packed, most_pieces, task_bytes
from sparkjobs.table_records import table_record
from sparkjobs.tasks import pack

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from holdfast.archive.model import FileRecord, Stream
    from holdfast.archive.placed import Placed
    from holdfast.archive.state import State
    from holdfast.sources.postgresql.address import Address
    from holdfast.sources.postgresql.read import Piece
    from holdfast.sources.postgresql.table import Table


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
        return self.bandwidth / max(1, min(tasks, job.cores, self.connections or job.cores))


@dataclass(frozen=True)
class Choice:
    """Which tables' rows are backed up: those that match a glob (none: all) and no exclusion.

    :param labels: of these, only those with these names; none: all.
    """

    globs: Sequence[str] = ()
    exclude: Sequence[str] = ()
    labels: Sequence[str] = ()

    def of(self, catalog: Catalog) -> tuple[Table, ...]:
        """Return the tables that are chosen."""
        found = catalog.with_rows(self.globs, self.exclude)
        return tuple(table for table in found if table.label in self.labels) if self.labels else found


@dataclass(frozen=True)
class OpenBlock:
    """A block that is not committed yet, with the pieces of it that another driver has read."""

    begun: BegunBlock
    catalog: Catalog
    read: tuple[FinishedPiece, ...] = ()

    def split(self, pieces: Iterable[Piece]) -> tuple[list[Piece], list[FinishedPiece]]:
        """Return what is to be read, and what is read already."""
        read = {(piece.table, piece.number, piece.first, piece.end): piece for piece in self.read}
        left, done = [], []
        for piece in pieces:
            found = read.get((piece.table.oid, piece.number, piece.first, piece.end))
            if found:
                done.append(found)
            else:
                left.append(piece)
        return left, done


def back_up(
    job: Job, source: str, choice: Choice = Choice(), limits: Limits = Limits(), wish: Wish | None = None
) -> dict[str, Any]:
    """Back up a source as its parent has decided, or what is left of it, and return a summary.

    :param wish: the quorum that it needs, which the parent waits for; None: none.
    """
    decision = Decision.from_json(os.environ.get(DECISION_VARIABLE, "{}"))
    if decision.kind == "changes":
        from sparkjobs.following import follow  # whose imports a full backup does not need

        return follow(job, source, decision, wish, connections=limits.connections)
    # What is to begin anew is of what is followed, whatever this run's own choice is.
    chosen = Choice(labels=decision.begin) if decision.begin else choice
    return back_up_snapshot(job, source, chosen, limits, decision, wish)


def back_up_snapshot(
    job: Job, source: str, choice: Choice, limits: Limits, decision: Decision, wish: Wish | None
) -> dict[str, Any]:
    """Back up what is in the snapshot that this job was given, or what is left of it."""
    archive = job.open_archive(wish)
    placed = archive.state.of_run(job.run)
    if placed is not None and placed.block.kind == "snapshot":
        job.say("the commit was made before the job was ended")
        return _result(job, archive, placed)
    address, snapshot = database_address("source"), _given_snapshot()
    limit = max_value_bytes()
    job.start("sparkjobs.pieces")
    block = _go_on(job, archive.state, snapshot) or _begin(job, archive.state, source, address, snapshot, choice)
    tables = choice.of(block.catalog)
    left, done = block.split(piece for table in tables for piece in cut(table))
    if done:
        job.say(f"going on: {len(done)} of {len(done) + len(left)} pieces were read")
    folders = {table.oid: table_folder(source, str(table.oid), block.begun.id) for table in tables}
    cores = job.cores
    room, most = task_bytes(left, cores=cores), most_pieces(len(left), cores=cores)
    tasks = pack(left, lambda piece: piece.weight, room=room, most=most)
    pace = limits.pace(job, len(tasks))
    may_pack = archive.state.format >= PACKED_SINCE and is_packed(left)
    packs = table_folder(source, "packs", block.begun.id) if may_pack else None
    found = job.map(
        "reading tables",
        tasks,
        PieceReader(job.store, address, snapshot, folders, packs=packs, max_value_bytes=limit, pace=pace),
        estimated_rows=sum(table.estimated_rows for table in tables) - sum(piece.rows for piece in done),
        at_once=limits.connections,
        on_results=job.log.finished,
    )
    # It is still held, so no table was changed while it was read.
    with open_snapshot(address, snapshot) as seen, connect(address) as now:
        seen.check_labels(now)
        known = look_at(seen.session)
        job.log.progress("committing")
    stream = _joined_stream(archive.state, source, decision, snapshot, known)
    whole = _describe(job, source, snapshot, block, [*done, *found], decision, stream)
    if whole.unlogged:
        job.say(f"unlogged, so that a crash of a server empties them: {named(whole.unlogged)}")
    return _result(job, archive, _commit(job, archive, whole, block.begun.started_from))


def _given_snapshot() -> Snapshot:
    text = os.environ.get(SNAPSHOT_VARIABLE)
    if text is None:
        raise UsageError("start this job with 'holdfast backup' or its Airflow operator: they hold its snapshot")
    return Snapshot.from_json(text)


def _begin(job: Job, state: State, source: str, address: Address, snapshot: Snapshot, choice: Choice) -> OpenBlock:
    """Store the schema and begin a block with it."""
    job.log.progress("reading the schema")
    with (
        open_snapshot(address, snapshot) as seen,
        begin_dump(address, snapshot, server_version=seen.session.info.server_version) as dumped,
    ):
        catalog, not_included, version = seen.catalog, seen.not_included, schema_fingerprint(seen.session)
        refuse(choice_obstacles(catalog, choice.of(catalog), standby=snapshot.standby))
        dump, warnings = dumped()
    block_id, attempt = uuid.uuid4().hex, new_attempt()
    folder = table_folder(source, "schema", block_id)
    begun = BegunBlock(
        id=block_id,
        snapshot=snapshot.to_json(),
        started_from=state.ends.get(source),
        catalog=write_bytes(job.store, f"{folder}/catalog-{attempt}.json", catalog.model_dump_json().encode()),
        schema_dump=write_bytes(job.store, f"{folder}/schema-{attempt}.dump", dump),
        not_included=not_included + warnings,
        schema_version=version,
        schema_digest=schema_digest(catalog, dump),
    )
    job.log.begin(begun)
    return OpenBlock(begun, catalog)


def _go_on(job: Job, state: State, snapshot: Snapshot) -> OpenBlock | None:
    """Return what a driver of this run has left, if it can be joined with what is read in this snapshot."""
    left = read_unfinished(job.store, job.run) if job.log.goes_on else None
    if left is None or left.block.snapshot != snapshot.to_json():
        return None
    if left.block.id in state.abandoned:
        job.say(f"starting again: block {left.block.id} was abandoned, and its files may be gone")
        return None
    try:
        catalog = Catalog.model_validate_json(read_file(job.store, left.block.catalog))
        read_file(job.store, left.block.schema_dump)
    except DamagedError as error:
        job.say(f"starting again: {sentence(error)}")
        return None
    whole, broken = left.split(job.store)
    if broken:
        job.say(f"the files of {len(broken)} finished pieces are missing, or not whole: these are read again")
    job.log.go_on(left.block)
    return OpenBlock(left.block, catalog, whole)


def _commit(job: Job, archive: Archive, block: Block, started_from: str | None) -> Placed:
    change = Change(kind="backup", add=(block,), expected_ends={block.source.name: started_from})
    with job.last_step():
        try:
            archive.add(lambda state: change, check=job.check, fence=job.locks.fence)
        except RefusedError:
            if block.id not in archive.state.blocks:  # the last request of a driver that was killed may come late
                raise
    return archive.state.blocks[block.id]


def _result(job: Job, archive: Archive, placed: Placed) -> dict[str, Any]:
    exact = placed.block.covers.exact
    told = {
        "commit": placed.number,
        **summary(placed.block),
        "seconds": round(job.log.elapsed_s, 3),
        "snapshot_note": "" if exact else _given_snapshot().note,
    }
    if not placed.block.supplement:
        return told
    changes = [
        each for each in archive.state.blocks.values() if each.block.run == job.run and each.block.kind == "changes"
    ]
    # One restores to the end of the changes: behind it there are only the tables that were begun anew.
    newest = max(changes, key=lambda each: each.number, default=placed)
    return {
        **told,
        "commit": newest.number,
        **summary(newest.block),
        "kind": "changes",
        "begun": [table.label for table in placed.block.tables],
        "commits": len(changes) + 1,
        "rows": placed.block.rows + sum(each.block.rows for each in changes),
        "bytes": placed.block.size + sum(each.block.size for each in changes),
    }


def _describe(
    job: Job,
    source: str,
    snapshot: Snapshot,
    block: OpenBlock,
    found: Iterable[FinishedPiece],
    decision: Decision,
    stream: Stream | None,
) -> Block:
    """Put together what the commit says of this backup."""
    catalog = block.catalog
    files: dict[int, list[FinishedPiece]] = {}
    packs: dict[str, FileRecord] = {}
    for piece in found:
        files.setdefault(piece.table, []).append(piece)
        packs |= {pack.path: pack for pack in piece.packs}
    skipped = [table for table in catalog.with_rows() if table.oid not in files]
    left_out = [] if decision.begin else skipped
    return Block(
        id=block.begun.id,
        kind="snapshot",
        run=job.run,
        source=SourceRecord(
            name=source,
            kind="postgresql",
            database=catalog.database,
            version=str(catalog.server_version),
            system_identifier=snapshot.system_identifier,
            timeline=snapshot.timeline,
        ),
        covers=Coverage(
            to_position=snapshot.position,
            from_time=snapshot.taken_at,
            to_time=snapshot.taken_at,
            exact=snapshot.exact,
        ),
        tables=tuple(_table_record(table, files[table.oid]) for table in catalog.with_rows() if table.oid in files),
        packs=tuple(packs[path] for path in sorted(packs)),
        catalog=block.begun.catalog,
        schema_dump=block.begun.schema_dump,
        whole=not skipped,
        others=tuple(table.oid for table in left_out),
        not_included=block.begun.not_included + tuple(not_selected(table.label) for table in left_out),
        unlogged=tuple(table.label for table in catalog.tables if table.persistence == "u" and table.oid in files),
        stream=stream,
        supplement=bool(decision.begin),
        gap=decision.gap,
        schema_version=block.begun.schema_version,
        schema_digest=block.begun.schema_digest,
    )


def _joined_stream(state: State, source: str, decision: Decision, snapshot: Snapshot, known: Seen) -> Stream | None:
    """Return the stream whose changes can be joined to a snapshot; None where there is none.

    Of one that begins with the snapshot, changes are wanted from there on: those since its slot was made are in the
    rows, and the next backup advances the slot past them. Until then the slot is behind what is archived.

    :param known: of the snapshot.
    """
    stream = decision.stream
    if stream is None or not snapshot.exact:
        return None
    position = snapshot.position if stream.opened else state.streams.get(source)
    if not position:  # it was given up since
        return None
    return stream.model_copy(update={"position": position, **known._asdict()})


def _table_record(table: Table, pieces: Iterable[FinishedPiece]) -> TableRecord:
    records = tuple(file for piece in sorted(pieces, key=lambda piece: piece.number) for file in piece.files)
    return table_record(table, records)


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
    parser.add_argument("--kind", choices=("auto", "full", "changes"), default="auto")
    parser.add_argument("--chosen", action="store_true")
    parser.add_argument("--max-retained", type=int)
    parser.add_argument("--quorum", type=int, default=1)
    parser.add_argument("--quorum-timeout", type=float, default=QUORUM_TIMEOUT_S)
    given = parser.parse_args(arguments)
    return run_application(
        "backup",
        archive=given.archive,
        run=given.run,
        work=lambda job: back_up(
            job,
            given.source,
            Choice(given.tables, given.exclude),
            Limits(given.connections, given.bandwidth),
            Wish.of(given.quorum, given.quorum_timeout),
        ),
    )


if __name__ == "__main__":
    sys.exit(main())
