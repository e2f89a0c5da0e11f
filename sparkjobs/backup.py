"""Application that backs up a PostgreSQL database."""

from __future__ import annotations

import os
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from holdfast.archive import Change
from holdfast.archive.format.block import summary
from holdfast.operations.backup_decision import Decision
from holdfast.operations.job_process import DECISION_VARIABLE
from holdfast.operations.requests.backup import BackupRequest
from holdfast.postgresql.snapshot.obstacles import choice_obstacles, refuse
from sparkjobs.driver.application import Job, end, run_request
from sparkjobs.driver.snapshot_reader import NO_LIMITS, Limits, SnapshotReader, given_snapshot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.archive.format.block import Stream
    from holdfast.archive.format.block_ref import Placed
    from holdfast.archive.format.state import State
    from holdfast.postgresql.catalog.catalog import Catalog
    from holdfast.postgresql.catalog.table import Table
    from holdfast.postgresql.logical.stream import Seen
    from holdfast.postgresql.snapshot.export import Snapshot
    from holdfast.replication.log.settings import QuorumRequest


@dataclass(frozen=True)
class Choice:
    """Tables to back up: those that match a glob (none: all) and no exclusion."""

    globs: Sequence[str] = ()
    exclude: Sequence[str] = ()

    def of(self, catalog: Catalog) -> tuple[Table, ...]:
        """Return the tables that are chosen."""
        return catalog.with_rows(self.globs, self.exclude)

    def has(self, label: str) -> bool:
        """Return whether a table is chosen, by its `schema.name`."""
        is_chosen = not self.globs or any(fnmatchcase(label, glob) for glob in self.globs)
        return is_chosen and not any(fnmatchcase(label, glob) for glob in self.exclude)


def back_up(
    job: Job,
    source: str,
    choice: Choice = Choice(),
    limits: Limits = NO_LIMITS,
    quorum_request: QuorumRequest | None = None,
) -> dict[str, Any]:
    """Back up a source as its parent has decided, and return a summary.

    :param quorum_request: the quorum that it needs, which the parent waits for; None: none.
    """
    decision = Decision.read(os.environ.get(DECISION_VARIABLE))
    if decision.kind == "changes":
        from sparkjobs.driver.following import follow  # whose imports a full backup does not need

        return follow(job, source, decision, quorum_request, is_chosen=choice.has, limits=limits)
    return back_up_snapshot(job, source, choice, limits, decision, quorum_request)


def back_up_snapshot(
    job: Job, source: str, choice: Choice, limits: Limits, decision: Decision, quorum_request: QuorumRequest | None
) -> dict[str, Any]:
    """Back up the tables in the snapshot that this job was given, or the rest after a killed job of its run."""
    archive = job.open_archive(quorum_request)
    placed = archive.state.of_run(job.run)
    if placed is not None and placed.block.kind == "snapshot":
        job.say("the commit was made before the job was ended")
        return _result(job, placed)
    reader = SnapshotReader(job, archive.state, source, limits, refuse=lambda *seen: _refuse(choice, *seen))
    found = reader.read(choice.of(reader.block.catalog))
    stream = joined_stream(archive.state, source, decision, reader.snapshot, reader.seen())
    job.log.progress("committing")
    block = reader.describe(found, stream, gap=decision.gap)
    change = Change(kind="backup", add=(block,), expected_ends={source: reader.block.begun.started_from})
    with job.last_step():
        return _result(job, job.commit(archive, lambda state: change, block.id))


def _refuse(choice: Choice, catalog: Catalog, snapshot: Snapshot) -> None:
    refuse(choice_obstacles(catalog, choice.of(catalog), standby=snapshot.standby))


def _result(job: Job, placed: Placed) -> dict[str, Any]:
    exact = placed.block.covers.exact
    return {
        "commit": placed.number,
        **summary(placed.block),
        "seconds": round(job.log.elapsed_s, 3),
        "snapshot_note": "" if exact else given_snapshot().note,
    }


def joined_stream(state: State, source: str, decision: Decision, snapshot: Snapshot, known: Seen) -> Stream | None:
    """Return the stream with changes that can be joined to a snapshot; None where there is none.

    Of one that begins with the snapshot, changes count from there on: those since its slot was made are in the rows,
    and the next backup advances the slot past them. Until then the slot is behind what is archived.

    :param known: of the snapshot.
    """
    stream = decision.stream
    if stream is None or not snapshot.exact:
        return None
    position = snapshot.position if stream.opened else state.streams.get(source)
    if not position:  # it was given up since
        return None
    return stream.model_copy(update={"position": position, **known._asdict()})


def _back_up(job: Job, request: BackupRequest) -> dict[str, Any]:
    choice, limits = Choice(request.tables, request.exclude), Limits(request.connections, request.bytes_per_second)
    return back_up(job, request.source, choice, limits, request.quorum_request)


def main(arguments: Sequence[str] | None = None) -> int:
    return run_request(BackupRequest, _back_up, arguments)


if __name__ == "__main__":
    end(main())
