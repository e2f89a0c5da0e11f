"""Tables that start over in an incremental backup, with a snapshot joined to the changes up to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import psycopg

from holdfast.archive.files.data_files import read_file
from holdfast.archive.format.block import WaitingTable
from holdfast.archive.history.table_bases import TableBases
from holdfast.common.errors import HoldfastError, SparkEndedError
from holdfast.common.lsn import parse_position
from holdfast.operations.backup_decision import Postponed
from holdfast.point_in_time.target_contents import fits
from holdfast.postgresql.catalog.catalog import Catalog
from holdfast.postgresql.snapshot.obstacles import table_obstacles

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from holdfast.archive.format.block import Block
    from holdfast.archive.format.block_ref import Placed
    from holdfast.archive.format.resume import FinishedPiece
    from holdfast.postgresql.catalog.table import Table
    from holdfast.storage import ObjectStore
    from sparkjobs.driver.application import Job
    from sparkjobs.driver.followed_tables import FollowedTables
    from sparkjobs.driver.segments import Segment
    from sparkjobs.driver.snapshot_reader import SnapshotReader
    from sparkjobs.tasks.changes import FinishedWindow


@dataclass(frozen=True)
class Restarted:
    """Tables that start over, as read in a snapshot."""

    reader: SnapshotReader
    tables: tuple[Table, ...]
    pieces: tuple[FinishedPiece, ...]

    def block(
        self, changes: Block, segment: Segment, following: FollowedTables, waiting: Mapping[int, WaitingTable]
    ) -> Block:
        """Return the block of these tables' rows.

        :param changes: the block that is committed with it, and ends at the snapshot, as `segment` does.
        :param waiting: the tables that still have no snapshot.
        """
        stream = segment.stream
        oids, labels = {table.oid for table in self.tables}, {table.label for table in self.tables}
        left = {
            label: reason
            for label, reason in following.not_followed.items()
            if label not in labels or label in stream.not_followed
        }
        joined = stream.model_copy(
            update={
                "position": changes.covers.to_position,
                "opened": False,
                "followed": {
                    **following.followed,
                    **{oid: entry for oid, entry in stream.followed.items() if oid in oids},
                },
                "not_followed": left,
                **segment.cut.seen._asdict(),
                "born": (),
                "waiting": waiting,
            }
        )
        return self.reader.describe(self.pieces, joined, supplement=True)


@dataclass(frozen=True)
class SegmentEnd:
    """Tables without a fitting snapshot where a segment of the log ends.

    :param to_begin: those that the run takes a snapshot of next, by `schema.name`, each with the reason.
    :param waiting: all that have none yet, by oid.
    :param restarted: those that start over.
    """

    to_begin: Mapping[str, str]
    waiting: Mapping[int, WaitingTable]
    restarted: Restarted | None = None


def tables_to_restart(
    store: ObjectStore, following: FollowedTables, now: Catalog, snapshots: Callable[[], Iterable[Placed]]
) -> dict[int, str]:
    """Return the tables without a snapshot that fits them, by oid, each with the reason.

    What cannot be followed has its rows of its last snapshot at every moment, as long as they fit it.

    :param snapshots: returns those that the next changes are joined to; called only where it depends on them.
    """
    reasons = following.not_followed
    found = {table.oid: reasons[table.label] for table in now.tables if table.label in following.starting_over}
    left = reasons.keys() - set(following.starting_over)
    if not left:
        return found
    live = TableBases()
    for placed in snapshots():
        live.add(placed)
    before: dict[str, Catalog] = {}
    for table in now.with_rows():
        known = live.tables.get(str(table.oid))
        if known is None or table.label not in left:
            continue
        file = known[1].block.catalog
        if file.path not in before:
            before[file.path] = Catalog.from_bytes(read_file(store, file), file.path)
        if not fits(before[file.path], now, table):
            found[table.oid] = reasons[table.label]
    return found


def as_waiting(
    now: Catalog, restart: Mapping[int, str], last: Block, postponed: Postponed | None
) -> dict[int, WaitingTable]:
    """Return tables that need a snapshot as waiting ones, by oid, each with the obstacle.

    :param last: the block before: since when they wait.
    :param postponed: what is in the way of all.
    """
    known = last.stream.waiting if last.stream else {}
    found = {}
    for table in now.with_rows():
        if table.oid not in restart:
            continue
        obstacles = "; ".join(str(each) for each in table_obstacles(table))
        why = obstacles or (postponed.reason if postponed else "")
        found[table.oid] = WaitingTable(
            table=table.label,
            since=known[table.oid].since if table.oid in known else last.covers.to_time,
            reason=_joined(restart[table.oid], why),
            act=bool(obstacles) or (postponed is not None and postponed.act),
        )
    return found


def put_off(waiting: Mapping[int, WaitingTable], tables: Sequence[Table], why: Postponed) -> dict[int, WaitingTable]:
    """Return the waiting tables, with the reason for those that could not start over."""
    oids = {table.oid for table in tables}
    return {
        oid: each.model_copy(update={"reason": _joined(each.reason, why.reason), "act": why.act})
        if oid in oids
        else each
        for oid, each in waiting.items()
    }


def why_not_joined(window: FinishedWindow, reader: SnapshotReader) -> str:
    """Return why a snapshot cannot be joined to a window that was to end with it; "" where it can."""
    snapshot = reader.snapshot
    if not snapshot.exact:
        return snapshot.note
    if parse_position(window.to_position) != parse_position(snapshot.position):
        return f"a transaction lies across the snapshot's position {snapshot.position}"
    return ""


def _joined(*reasons: str) -> str:
    return "; ".join(filter(None, reasons))


def end_of_segment(
    job: Job,
    window: FinishedWindow,
    segment: Segment,
    waiting: Mapping[int, WaitingTable],
    reader: SnapshotReader | None,
    postponed: Postponed | None,
) -> SegmentEnd:
    """Take snapshots of the tables that start over where a segment ends; those of which that fails wait on.

    :param window: that the segment ends with.
    :param waiting: tables that need a snapshot there.
    :param reader: None where the job was given no snapshot.
    """
    if reader is None:
        return SegmentEnd({} if postponed else startable(waiting), waiting)
    tables = [table for table in segment.cut.catalog.with_rows() if table.oid in waiting and not waiting[table.oid].act]
    if not tables:
        return SegmentEnd({}, waiting)
    if why := why_not_joined(window, reader):
        return SegmentEnd({}, put_off(waiting, tables, Postponed(reason=why)))
    try:
        pieces = reader.read(tables)
    except SparkEndedError:
        raise
    except (HoldfastError, psycopg.Error) as error:
        job.check()
        return SegmentEnd({}, put_off(waiting, tables, Postponed.by(error)))
    read = {table.oid for table in tables}
    left = {oid: each for oid, each in waiting.items() if oid not in read}
    return SegmentEnd({}, left, Restarted(reader, tuple(tables), tuple(pieces)))


def startable(waiting: Mapping[int, WaitingTable]) -> dict[str, str]:
    """Return the tables that a snapshot may help, by name, each with the reason."""
    return {each.table: each.reason for each in waiting.values() if not each.act}
