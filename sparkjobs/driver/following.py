"""Incremental backup of a source, window by window.

Each window is archived, committed, and then released from the server's log. Only after its commit is a window's log
given back to the server, so that a crash repeats work and loses nothing; what was committed before a crash is let go of
first by the next run.
"""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import psycopg

from holdfast.archive.format.versions import BORN_IN, PACKED_SINCE
from holdfast.archive.history.coverage import to_of
from holdfast.common.errors import (
    HoldfastError,
)
from holdfast.common.lsn import parse_position, show_position
from holdfast.common.value_limit import max_value_bytes
from holdfast.operations import marks
from holdfast.operations.backup_decision import Postponed, newest_with_stream
from holdfast.operations.executor_choice import INLINE_CHANGES
from holdfast.operations.marks import MarkRecord
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.logical import stream as streams
from holdfast.replication.work.replica_backup import until_kept
from sparkjobs.driver import log_windows
from sparkjobs.driver.application import Job, database_address
from sparkjobs.driver.archived_log import NO_STREAM, ArchivedLog
from sparkjobs.driver.segments import (
    Following,
    Segment,
    compare,
    known_cut,
    mark_segment,
    read_now,
    snapshot_segment,
    touched_tables,
)
from sparkjobs.driver.snapshot_reader import NO_LIMITS, Limits, SnapshotReader
from sparkjobs.driver.start_over import as_waiting, end_of_segment, startable, tables_to_restart
from sparkjobs.driver.window_blocks import summary_of
from sparkjobs.tasks.changes import ChangeReader, WindowTask

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from holdfast.archive import Archive
    from holdfast.archive.format.block import Block, Stream, WaitingTable
    from holdfast.archive.format.block_ref import Placed
    from holdfast.operations.backup_decision import Decision
    from holdfast.postgresql.catalog.catalog import Catalog
    from holdfast.postgresql.connection.address import Address
    from holdfast.replication.log.settings import QuorumRequest
    from sparkjobs.tasks.changes import FinishedWindow


def follow(
    job: Job,
    source: str,
    decision: Decision,
    quorum_request: QuorumRequest | None = None,
    *,
    is_chosen: Callable[[str], bool],
    limits: Limits = NO_LIMITS,
) -> dict[str, Any]:
    """Back up the changes since the last backup, and return a summary.

    Tables that start over need a snapshot. Where this job was given one, the changes up to it and the rows of those
    tables are one commit. Where it was not, and little is to be read, nothing is done but to name them (`to_begin`):
    the parent takes a snapshot then. Else the changes are backed up, and they are named with the result.

    :param is_chosen: whether rows of a table that no backup knows are wanted, by its `schema.name`.
    :param limits: its connections are sessions that read the log at a time, at most.
    :param quorum_request: the quorum that each of its commits needs; the parent waits for the last one's.
    """
    archive = job.open_archive(quorum_request)
    newest, end = newest_with_stream(archive.state, source), archive.state.streams.get(source)
    if newest is None or end is None or decision.stream is None:
        raise HoldfastError(NO_STREAM)
    address = database_address("source")
    job.start("sparkjobs.tasks.changes")
    with connect(address) as session:
        streams.wait_until_free(session, decision.stream.slot)
        if parse_position(decision.stream.position) < parse_position(end):
            until_kept(archive, source, end, check=job.check, say=job.say)
            streams.advance(session, decision.stream.slot, end)
        at_once = min(limits.connections or log_windows.WINDOWS_AT_ONCE, log_windows.WINDOWS_AT_ONCE, job.cores)
        if at_once > 1:
            at_once = 1 + min(at_once - 1, streams.count_copies(session, decision.stream.slot, decision.stream.slot))
    run = Run(job, source, archive, address, at_once, decision, is_chosen)
    if decision.begins:
        if run.is_done:
            job.say("the commit was made before the job was ended")
            return run.summary()
        reader = run.reader(limits)
        if reader is not None:
            run.to_snapshot(reader, decision.stream, lets_go=quorum_request is None)
            return run.summary()
    block = uuid.uuid4().hex
    now = read_now(job, address, source, newest.block, block, decision.stream)
    run.to_known_segments(now.end)
    if not decision.begins and decision.postponed is None and (to_begin := run.foreseen(now)):
        return {"to_begin": to_begin}
    run.to(now, block, lets_go=quorum_request is None)
    run.forget_marks()
    return run.summary()


def _is_told(last: Block, segment: Segment) -> bool:
    """Return whether the log records all changes of definitions since a block."""
    told = last.stream.definitions if last.is_cut and last.stream else ""
    return bool(told) and told == segment.cut.seen.definitions


class Run:
    """Incremental backup of a source, segment after segment of its log.

    :param at_once: windows that are read at a time, at most.
    :param is_chosen: as for `follow`.
    """

    def __init__(
        self,
        job: Job,
        source: str,
        archive: Archive,
        address: Address,
        at_once: int,
        decision: Decision,
        is_chosen: Callable[[str], bool],
    ) -> None:
        self._job = job
        self._is_chosen = is_chosen
        self._postponed = decision.postponed
        self._source = source
        self._archive = archive
        self._address = address
        self._at_once = at_once
        self._log = ArchivedLog(job, source, archive, address, decision.database_oid)
        self._catalog: tuple[str, Catalog] | None = None
        self._to_begin: Mapping[str, str] = {}
        self._marks: marks.PendingMarks | None = None

    @property
    def is_done(self) -> bool:
        """Return whether another driver of this run has committed the snapshot of tables that start over."""
        return any(placed.block.kind == "snapshot" for placed in self._log.committed())

    def reader(self, limits: Limits) -> SnapshotReader | None:
        """Return the reader of the snapshot that the job was given; None where it cannot be read.

        Tables that start over wait then.
        """
        try:
            return SnapshotReader(self._job, self._archive.state, self._source, limits)
        except (HoldfastError, psycopg.Error) as error:
            self._job.check()
            self._postponed = Postponed.by(error)
            self._job.say(f"the changes are backed up without the tables that start over: {self._postponed.reason}")
            return None

    def to_snapshot(self, reader: SnapshotReader, stream: Stream, *, lets_go: bool) -> None:
        """Archive all changes up to a snapshot, with the tables that start over.

        :param lets_go: of the last window's log, as for `to`.
        """
        now = snapshot_segment(reader, stream)
        self.to_known_segments(now.end - 1)
        self.to(now, uuid.uuid4().hex, lets_go=lets_go, reader=reader)
        self.forget_marks()

    def to_known_segments(self, flushed: int) -> None:
        """Archive all changes up to the last position with known objects, segment by segment."""
        for segment in self._known_segments(flushed):
            self.to(segment, uuid.uuid4().hex)

    def forget_marks(self) -> None:
        """Remove the records of marks that the archive has reached."""
        if self._marks is not None:
            marks.forget(self._job.store, self._marks, self._log.newest.block, self._archive.settled())

    def foreseen(self, now: Segment) -> dict[str, str]:
        """Return the tables that need a snapshot, each with the reason.

        Where more than a window of log is to be read first, none is returned. What the log alone tells, such as of a
        column that cannot be told, is not foreseen. Tables that could not be read in a snapshot either are left out.
        """
        if now.end - self._log.position > log_windows.WINDOW_BYTES:
            return {}
        return startable(self._waiting(now, self._compared(now, self._before())))

    def _known_segments(self, flushed: int) -> Iterator[Segment]:
        """Yield the segments that end with a full backup or a mark with known objects."""
        found: list[tuple[int, Placed | MarkRecord]] = [(to_of(placed.block), placed) for placed in self._log.blocks()]
        vouched = self._archive.state.documents or {}
        self._marks = marks.pending(self._job.store, self._source, vouched, self._job.say)
        found += [(parse_position(each.position), each) for each in self._marks.records.values() if each]
        for end, known in sorted(found, key=lambda each: each[0]):
            if self._log.position < end <= flushed and (segment := self._segment(known)) is not None:
                yield segment

    def _segment(self, known: Placed | MarkRecord) -> Segment | None:
        """Return the segment that ends with a full backup or a mark; None where its objects are unknown."""
        last = self._log.newest.block
        if isinstance(known, MarkRecord):
            return mark_segment(self._job, self._source, last, known) if known.follows(last) else None
        block = known.block
        if block.kind != "snapshot" or block.stream is None or not block.covers.exact:
            return None
        return Segment(to_of(block), block.covers.to_time, known_cut(self._job, block), block.stream)

    def _before(self) -> Catalog:
        """Return the catalog at the end of the archived changes; read once for each block."""
        last = self._log.newest.block
        if self._catalog is None or self._catalog[0] != last.catalog.path:
            self._catalog = last.catalog.path, known_cut(self._job, last).catalog
        return self._catalog[1]

    def _compared(self, segment: Segment, before: Catalog) -> Following:
        last = self._log.newest.block
        begins = last.is_cut and self._archive.state.format >= BORN_IN
        return compare(segment, self._log.followed(), before, begins=begins)

    def to(self, segment: Segment, block: str, *, lets_go: bool = True, reader: SnapshotReader | None = None) -> None:
        """Archive window after window until the segment's end is reached.

        :param lets_go: of the last one's log; else who waits for its quorum does that, or the next backup.
        :param reader: reads the tables that start over in the snapshot that the segment ends with.
        """
        before = self._before()
        following = self._compared(segment, before)
        is_told = _is_told(self._log.newest.block, segment)
        if is_told and following.until_changed.keys() - following.followed.keys():
            self._to_first_change(segment, following)
            following = self._to_own_changes(before, segment, following)
            is_told = False
        last = self._log.newest
        room = log_windows.WINDOW_BYTES
        while True:
            stretches = self._next(segment.end, room, block)
            windows = self._read(stretches, before, segment, following)
            if windows is None:
                self._at_once = 1
                continue
            if is_told and any(window.uncertain for window in windows):
                self._to_first_change(segment, following)
                uncertain = frozenset().union(*(window.uncertain for window in windows))
                following = self._to_own_changes(before, segment, following.without(uncertain, segment.cut.catalog))
                is_told, last, block = False, self._log.newest, uuid.uuid4().hex
                continue
            for stretch, window in zip(stretches, windows, strict=True):
                at = self._log.position
                if stretch.start is not None and parse_position(window.to_position) <= at:
                    continue  # the transaction that ends the one before reaches as far
                if stretch.start is not None and window.first and parse_position(window.first) < at:
                    break  # it is archived: the windows have not met where they should
                following = following.without(window.uncertain, segment.cut.catalog)
                is_last = parse_position(window.to_position) >= segment.end
                end = (
                    end_of_segment(
                        self._job, window, segment, self._waiting(segment, following), reader, self._postponed
                    )
                    if is_last
                    else None
                )
                self._log.archive(stretch.block, window, segment, last.block, following, end, lets_go=lets_go)
                following = replace(following, born=())
                if end:
                    self._to_begin = end.to_begin
                    return
                room = log_windows.next_room(
                    room, window, parse_position(stretch.upto) - at if len(stretches) > 1 else None
                )
                if window.bounded or window.uncertain:
                    break  # what was read beside it is not what follows, or is of tables that cannot be followed
            block = uuid.uuid4().hex

    def _to_first_change(self, segment: Segment, following: Following) -> None:
        """Archive all changes before the first one of a definition that makes tables start over.

        The log tells of it: up to there, all tables are what they were.

        :param following: for the whole segment.
        """
        last = self._log.newest.block
        known = last.stream.not_followed if last.stream else {}
        until = Following(following.until_changed, known, ())
        unchanged = replace(segment, cut=known_cut(self._job, last))
        room = log_windows.WINDOW_BYTES
        while True:
            upto = show_position(min(self._log.position + room, segment.end))
            window = self._commit_unchanged(upto, segment, unchanged, until)
            if window is None:
                return
            room = log_windows.next_room(room, window, None)

    def _to_own_changes(self, before: Catalog, segment: Segment, following: Following) -> Following:
        """Archive changes for as long as a table that starts over was not touched itself.

        The log tells which objects were. All other tables are followed as in the whole segment.

        :param before: the objects at the segment's beginning.
        :return: what is to follow from here on.
        """
        last, now, room = self._log.newest.block, segment.cut.catalog, log_windows.WINDOW_BYTES
        held = following.held(now)
        while held:
            upto = show_position(min(self._log.position + room, segment.end))
            wanted = following.holding(held, now)
            mixed = replace(segment, cut=replace(segment.cut, catalog=now.with_tables(before, held)))
            block = uuid.uuid4().hex
            (window,) = self._read([WindowTask(block, upto)], before, mixed, wanted) or (None,)
            touching = next((each for each in window.defined if touched_tables(each, held)), None) if window else None
            if touching is not None and parse_position(touching.position) <= self._log.position:
                gone = touched_tables(touching, held)
                held = {oid: entry for oid, entry in held.items() if oid not in gone}
                continue
            if touching is not None:
                block = uuid.uuid4().hex
                (window,) = self._read([WindowTask(block, touching.position)], before, mixed, wanted) or (None,)
            if window is None or window.uncertain or parse_position(window.to_position) >= segment.end:
                break
            self._log.archive(block, window, segment, last, wanted, None)
            following = replace(following, born=())
            room = log_windows.next_room(room, window, None)
        return following

    def _commit_unchanged(
        self, upto: str, segment: Segment, unchanged: Segment, following: Following
    ) -> FinishedWindow | None:
        """Archive a window, up to its first change of a definition.

        :param unchanged: the same segment with the objects of its beginning.
        :return: None where nothing of this kind is to follow.
        """
        at, block, last = self._log.position, uuid.uuid4().hex, self._log.newest.block
        (window,) = self._read([WindowTask(block, upto)], unchanged.cut.catalog, unchanged, following) or (None,)
        defined = window.defined if window else ()
        if window and defined and parse_position(defined[0].position) > at:
            block = uuid.uuid4().hex
            (window,) = self._read(
                [WindowTask(block, defined[0].position)], unchanged.cut.catalog, unchanged, following
            ) or (None,)
        elif defined or (window and parse_position(window.to_position) >= segment.end):
            return None
        if window is None or window.uncertain:
            return None
        self._log.archive(block, window, segment, last, following, None)
        return None if defined else window

    def _next(self, end: int, room: int, block: str) -> list[WindowTask]:
        """Cut the next part of the log into windows that are read at a time.

        The slot reads the first one, copies of it the others.

        :param end: position where the segment ends, which a transaction may have overstepped.
        :param room: bytes of log of one window, at most.
        :param block: id of the first one's block.
        """
        return log_windows.cut_windows(self._log.position, end, room, block, self._at_once)

    def _read(
        self, tasks: Sequence[WindowTask], before: Catalog, segment: Segment, following: Following
    ) -> list[FinishedWindow] | None:
        """Read windows at the same time; None: some could not be read, which may be due to that."""
        reader = ChangeReader(
            self._job.store,
            self._address,
            stream=segment.stream.slot,
            source=self._source,
            before=before,
            after=segment.cut.catalog,
            followed=frozenset(following.followed),
            is_chosen=self._is_chosen,
            most_changes=log_windows.MOST_CHANGES,
            max_value_bytes=max_value_bytes(),
            packs=self._archive.state.format >= PACKED_SINCE,
            refuse_above=INLINE_CHANGES if self._job.is_bounded else None,
        )
        return log_windows.read_windows(self._job, tasks, reader)

    def summary(self) -> dict[str, Any]:
        """Return the summary of the whole run."""
        return summary_of(self._log.committed(), self._to_begin, seconds=self._job.log.elapsed_s)

    def _waiting(self, segment: Segment, following: Following) -> dict[int, WaitingTable]:
        """Return the tables that need a snapshot where a segment ends."""
        now = segment.cut.catalog
        restart = tables_to_restart(self._job.store, following, now, lambda: self._log.chain().snapshots)
        return as_waiting(now, restart, self._log.newest.block, self._postponed)
