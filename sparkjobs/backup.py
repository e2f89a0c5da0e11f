"""Back up a PostgreSQL database: one snapshot, many Spark tasks, one commit.

Each task streams Arrow batches from the source to Parquet on the store and returns only file records. The process
that started this one holds the snapshot; so a driver that takes the place of one that was killed goes on from the
pieces that the run's records say are finished.
"""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.archive import Archive, Change
from holdfast.archive.format.model import summary
from holdfast.common.errors import RefusedError
from holdfast.operations.backup_decision import Decision
from holdfast.operations.job_process import DECISION_VARIABLE
from holdfast.replication.log.settings import QUORUM_TIMEOUT_S, QuorumRequest
from holdfast.sources.postgresql.snapshot.preconditions import choice_obstacles, refuse
from sparkjobs.driver.application import Job, run_application
from sparkjobs.driver.snapshot_reader import NO_LIMITS, Limits, SnapshotReader, given_snapshot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.archive.format.block_ref import Placed
    from holdfast.archive.format.model import Block, Stream
    from holdfast.archive.format.state import State
    from holdfast.sources.postgresql.catalog.catalog import Catalog
    from holdfast.sources.postgresql.catalog.table import Table
    from holdfast.sources.postgresql.logical.stream import Seen
    from holdfast.sources.postgresql.snapshot.export import Snapshot


@dataclass(frozen=True)
class Choice:
    """Which tables' rows are backed up: those that match a glob (none: all) and no exclusion."""

    globs: Sequence[str] = ()
    exclude: Sequence[str] = ()

    def of(self, catalog: Catalog) -> tuple[Table, ...]:
        """Return the tables that are chosen."""
        return catalog.with_rows(self.globs, self.exclude)


def back_up(
    job: Job, source: str, choice: Choice = Choice(), limits: Limits = NO_LIMITS, wish: QuorumRequest | None = None
) -> dict[str, Any]:
    """Back up a source as its parent has decided, or what is left of it, and return a summary.

    :param wish: the quorum that it needs, which the parent waits for; None: none.
    """
    decision = Decision.from_json(os.environ.get(DECISION_VARIABLE, "{}"))
    if decision.kind == "changes":
        from sparkjobs.driver.following import follow  # whose imports a full backup does not need

        return follow(job, source, decision, wish, limits=limits)
    return back_up_snapshot(job, source, choice, limits, decision, wish)


def back_up_snapshot(
    job: Job, source: str, choice: Choice, limits: Limits, decision: Decision, wish: QuorumRequest | None
) -> dict[str, Any]:
    """Back up what is in the snapshot that this job was given, or what is left of it."""
    archive = job.open_archive(wish)
    placed = archive.state.of_run(job.run)
    if placed is not None and placed.block.kind == "snapshot":
        job.say("the commit was made before the job was ended")
        return _result(job, placed)
    reader = SnapshotReader(job, archive.state, source, limits, refuse=lambda *seen: _refuse(choice, *seen))
    found = reader.read(choice.of(reader.block.catalog))
    stream = _joined_stream(archive.state, source, decision, reader.snapshot, reader.seen())
    job.log.progress("committing")
    block = reader.describe(found, stream, gap=decision.gap)
    return _result(job, _commit(job, archive, block, reader.block.begun.started_from))


def _refuse(choice: Choice, catalog: Catalog, snapshot: Snapshot) -> None:
    refuse(choice_obstacles(catalog, choice.of(catalog), standby=snapshot.standby))


def _commit(job: Job, archive: Archive, block: Block, started_from: str | None) -> Placed:
    change = Change(kind="backup", add=(block,), expected_ends={block.source.name: started_from})
    with job.last_step():
        try:
            archive.add(lambda state: change, check=job.check, fence=job.locks.fence)
        except RefusedError:
            if block.id not in archive.state.blocks:  # the last request of a driver that was killed may come late
                raise
    return archive.state.blocks[block.id]


def _result(job: Job, placed: Placed) -> dict[str, Any]:
    exact = placed.block.covers.exact
    return {
        "commit": placed.number,
        **summary(placed.block),
        "seconds": round(job.log.elapsed_s, 3),
        "snapshot_note": "" if exact else given_snapshot().note,
    }


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
    parser.add_argument("--moved", action="store_true")
    parser.add_argument("--restart-stream", choices=("no", "stuck", "now"), default="no")
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
            QuorumRequest.of(given.quorum, given.quorum_timeout),
        ),
    )


if __name__ == "__main__":
    sys.exit(main())
