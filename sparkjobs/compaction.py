"""Application that compacts an archive.

It joins small blocks of changes into few, and makes full snapshots of older ones and the changes since. Each group of
blocks, and each snapshot, is one commit of the driver. A driver that was killed has committed some of them, which the
next run finds as they are; of the one it was at, the files are written again.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from holdfast.archive import Change
from holdfast.archive.archive import IDENTITY_KEY
from holdfast.archive.files.data_files import table_folder
from holdfast.archive.files.packs import packs_of
from holdfast.archive.format.document import TableRecord, iso
from holdfast.archive.history.restore_points import only_source, source_names
from holdfast.archive.maintenance.compaction import (
    CompactionPolicy,
    check_format,
    check_neighbours,
    form_runs,
    join,
    join_transactions,
    plan_compaction,
)
from holdfast.archive.maintenance.consolidation import bytes_to_consolidate, newest_cut, synthetic_block
from holdfast.common.errors import RefusedError
from holdfast.operations.requests.compaction import CompactionRequest
from sparkjobs.driver.application import Job, end, run_request
from sparkjobs.tasks.merging import Lister, MadeShare, MadeTable, MergedPiece, Merger, TableMaker, cut
from sparkjobs.tasks.packing import pack
from sparkjobs.tasks.table_records import table_record

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from holdfast.archive import Archive
    from holdfast.archive.format.block import Block, Transactions
    from holdfast.archive.format.block_ref import Placed
    from holdfast.archive.format.document import FileRecord
    from holdfast.archive.format.state import State
    from holdfast.archive.maintenance.compaction import Group
    from holdfast.point_in_time.consolidated_backup import Consolidation

_TASK_BYTES = 64 << 20
"""Of stored files that a task reads: small tables share one."""


def compact(job: Job, request: CompactionRequest) -> dict[str, Any]:
    """Join blocks of changes, consolidate on request, and return a summary.

    :raises RefusedError: the archive is of an older format, or the source that was named cannot be consolidated.
    """
    with job.lead_archive() as archive:
        return _compact(job, archive, request)


def _compact(job: Job, archive: Archive, request: CompactionRequest) -> dict[str, Any]:
    check_format(archive)
    state = archive.settled()
    sources = source_names(state) if request.source is None else (only_source(state, request.source),)
    policy = CompactionPolicy.configured(request.section)
    groups = plan_compaction(state, policy, job.store.list(IDENTITY_KEY).now, source=request.source)
    behind = [source for source in sources if request.consolidate and newest_cut(state, source)]
    if groups or behind:
        # Before the first commit: a job that hands itself over tells of nothing that it has done.
        job.claim(sum(group.size for group in groups) + sum(bytes_to_consolidate(state, source) for source in behind))
        job.start("sparkjobs.tasks.merging")
    joined = [_join_group(job, archive, group) for group in groups]
    refused: dict[str, str] = {}
    snapshots: list[Placed] = []
    for source in sources if request.consolidate else ():
        try:
            made = _consolidate(job, archive, source)
        except RefusedError as error:
            if request.source is not None:
                raise
            refused[source] = str(error)
            job.say(str(error))
            continue
        snapshots += [made] if made else []
    return {
        "commit": max((placed.number for placed in (*joined, *snapshots)), default=None),
        "joined": [_describe_group(group, placed) for group, placed in zip(groups, joined, strict=True)],
        "consolidated": [_describe_snapshot(placed) for placed in snapshots],
        "not_consolidated": refused,
        "blocks_removed": sum(len(group.blocks) for group in groups),
        "rows": sum(placed.rows for placed in (*joined, *snapshots)),
        "bytes": sum(placed.size for placed in (*joined, *snapshots)),
        "seconds": round(job.log.elapsed_s, 3),
    }


def _describe_group(group: Group, placed: Placed) -> dict[str, Any]:
    return {
        "source": group.source,
        "commit": placed.number,
        "blocks": len(group.blocks),
        "bytes_before": group.size,
        "bytes": placed.size,
        "changes": placed.rows,
        "from": iso(placed.head.covers.from_time),
        "to": iso(placed.head.covers.to_time),
    }


def _describe_snapshot(placed: Placed) -> dict[str, Any]:
    return {
        "source": placed.source,
        "commit": placed.number,
        "tables": len(placed.head.tables),
        "rows": placed.rows,
        "bytes": placed.size,
        "restorable_to": iso(placed.head.covers.to_time),
        "position": placed.head.covers.to_position,
    }


def _join_group(job: Job, archive: Archive, group: Group) -> Placed:
    identity = uuid.uuid4().hex
    job.log.progress("planning")
    runs = form_runs(group)
    folder = f"data/{group.source}/{{}}/changes/{identity}"
    cores = job.cores
    pieces = [piece for run in runs for piece in cut(job.store, run, folder.format(run.table), most=cores)]
    tasks = pack(pieces, lambda piece: piece.size, room=_TASK_BYTES)
    found: list[MergedPiece] = job.map(
        "joining changes",
        tasks,
        Merger(job.store),
        estimated_rows=sum(run.rows for run in runs),
    )
    files: dict[int, list[FileRecord]] = {}
    for piece in sorted(found, key=lambda each: (each.run, each.number)):
        files.setdefault(piece.run, []).extend(piece.files)
    tables = tuple(run.record(files.get(run.number, ())) for run in runs)
    block = join(group, identity=identity, run=job.run, tables=tables, transactions=_join_lists(job, group, folder))

    def plan(state: State) -> Change:
        check_neighbours(state, group)
        return Change(kind="compaction", add=(block,), remove=group.ids)

    return _commit(job, archive, block, plan)


def _join_lists(job: Job, group: Group, folder: str) -> Transactions | None:
    lists = [placed.head.transactions.file for placed in group.blocks if placed.head.transactions]
    stem = f"{folder.format('transactions')}/00000"
    found = job.map("joining transactions", [lists], Lister(job.store, stem), estimated_rows=0) if lists else []
    return join_transactions(group, found[0] if found else None)


def _commit(job: Job, archive: Archive, block: Block, plan: Callable[[State], Change]) -> Placed:
    job.log.progress("committing", rows=block.rows, size=block.size)
    return job.commit(archive, plan, block.id)


def _consolidate(job: Job, archive: Archive, source: str) -> Placed | None:
    """Make a full snapshot at the newest position with a known schema; None where none is newer than the last."""
    state = archive.settled()
    ends = newest_cut(state, source)
    if ends is None:
        return None
    from holdfast.point_in_time.consolidated_backup import Consolidation  # with DuckDB, which no join of changes needs

    job.log.progress("planning")
    wanted = Consolidation(state, job.store, ends)
    identity = uuid.uuid4().hex
    cores = job.cores
    changed = (
        MadeTable(table, wanted.history(table), table_folder(source, str(table.oid), identity))
        for table in wanted.changed
    )
    shares = [share for made in changed for share in made.shared_out(cores)]
    # Shares of one table are for tasks of their own, however small they are.
    tasks = pack(shares, lambda made: _TASK_BYTES if made.share.count > 1 else made.size, room=_TASK_BYTES)
    done: list[MadeShare] = job.map(
        "making tables",
        tasks,
        TableMaker(job.store),
        estimated_rows=wanted.estimated,
    )
    found: dict[str, tuple[FileRecord, ...]] = {}
    for share in sorted(done, key=lambda each: each.number):
        found[share.table] = (*found.get(share.table, ()), *share.files)
    records = _records(wanted, found)
    block = synthetic_block(
        ends,
        identity=identity,
        run=job.run,
        tables=records,
        packs=packs_of(records, (placed.block for placed in wanted.target.blocks())),
        left_out=wanted.left_out,
    )

    def plan(state: State) -> Change:
        if newest_cut(state, source) is None:
            raise RefusedError(f"a full backup of {source} was committed meanwhile: nothing was added")
        return Change(kind="consolidation", add=(block,))

    return _commit(job, archive, block, plan)


def _records(consolidation: Consolidation, made: Mapping[str, tuple[FileRecord, ...]]) -> list[TableRecord]:
    """Return the records of a snapshot's tables; an unchanged one has the files of the older snapshot.

    :param made: the files that were written, by table.
    """
    return [
        table_record(table, made[str(table.oid)] if str(table.oid) in made else consolidation.parts(table).base.files)
        for table in consolidation.kept
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    return run_request(CompactionRequest, compact, arguments)


if __name__ == "__main__":
    end(main())
