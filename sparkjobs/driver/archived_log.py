"""A source's log as an archive has it: its end, and the commits of an incremental backup that extend it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from holdfast.archive import Archive, Change
from holdfast.archive.format.block import Block, Coverage, DefinitionChange, summary
from holdfast.archive.history.coverage import blocks_of, chains, stream_tip, to_of
from holdfast.common.errors import HoldfastError
from holdfast.common.lsn import parse_position, show_position
from holdfast.common.words import named
from holdfast.operations.marks import tell_apart
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.logical import stream as streams
from holdfast.replication.work.replica_backup import until_kept
from sparkjobs.driver.segments import known_cut

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from holdfast.archive.format.block import Mark, SourceRecord, Stream
    from holdfast.archive.format.block_ref import Placed
    from holdfast.archive.history.coverage import Chain
    from holdfast.postgresql.connection.address import Address
    from sparkjobs.driver.application import Job
    from sparkjobs.driver.followed_tables import FollowedTables
    from sparkjobs.driver.segments import Cut, Segment
    from sparkjobs.driver.start_over import SegmentEnd
    from sparkjobs.tasks.changes import FinishedWindow

_SHOWN: Final = 100

NO_STREAM = "this archive follows no stream of the source: start the backup again"


class ArchivedLog:
    """The log of a source, as far as it is archived.

    :param database_oid: of the source's database, as it is now.
    """

    def __init__(self, job: Job, source: str, archive: Archive, address: Address, database_oid: int | None) -> None:
        self._job = job
        self._source = source
        self._archive = archive
        self._address = address
        self._database_oid = database_oid
        self._done: list[Block] = []

    @property
    def position(self) -> int:
        """Return the position that the archive has reached."""
        return parse_position(self._archive.state.streams[self._source])

    @property
    def newest(self) -> Placed:
        """Return the block that the next changes follow on.

        :raises HoldfastError: there is none.
        """
        tip = stream_tip(self._archive.state, self._source)
        if tip is None:
            raise HoldfastError(NO_STREAM)
        return tip

    @property
    def rows(self) -> int:
        return sum(block.rows for block in self._done)

    @property
    def size(self) -> int:
        return sum(block.size for block in self._done)

    def blocks(self) -> list[Placed]:
        """Return the source's blocks that changes are joined to, or were read from, in order."""
        return [each for each in blocks_of(self._archive.state, self._source) if each.block.stream]

    def committed(self) -> list[Placed]:
        """Return the blocks of this run; this job may be its second part."""
        return [placed for placed in self.blocks() if placed.block.run == self._job.run]

    def chain(self) -> Chain:
        tip = self.newest
        every = chains(self._archive.state, self._source)
        return next(chain for chain in every if tip in (*chain.changes, *chain.snapshots))

    def followed(self) -> dict[int, int]:
        """Return the tables that are archived completely up to here, each with its publication entry."""
        last = self.newest.block
        found = dict(last.stream.followed) if last.stream else {}
        for placed in self.blocks():
            block = placed.block
            if block.kind == "snapshot" and block.stream and to_of(block) == self.position:
                begun = {int(table.id) for table in block.tables}
                found.update((oid, entry) for oid, entry in block.stream.followed.items() if oid in begun)
        return found

    def archive(
        self,
        block: str,
        window: FinishedWindow,
        segment: Segment,
        last: Block,
        following: FollowedTables,
        end: SegmentEnd | None,
        *,
        lets_go: bool = True,
    ) -> None:
        """Commit a window and, where the segment ends, the snapshot of tables that start over; let go of its log.

        :param block: id of its block.
        :param last: the block before the segment.
        :param end: the segment ends with it; else its schema is recorded as that from before the segment.
        :param lets_go: of the log, where the segment ends.
        """
        cut = segment.cut if end else known_cut(self._job, last)
        stream = segment.stream if end else last.stream
        if stream is None:
            raise HoldfastError(NO_STREAM)
        source = last.source.model_copy(
            update={"version": str(cut.catalog.server_version), "database_oid": self._database_oid}
        )
        at = show_position(self.position)
        added = window_block(
            replace(window, marks=self._our_marks(window.marks)),
            segment,
            last,
            following,
            end,
            block=block,
            run=self._job.run,
            source=source,
            at=at,
            since=self.newest.block.covers.to_time,
            cut=cut,
            stream=stream,
        )
        with connect(self._address) as session:
            streams.check_unchanged(session, stream.slot, stream.publication_oid, at)
        self._job.log.progress("committing", rows=self.rows, size=self.size)
        begun = (end.restarted.block(added, segment, following, end.waiting),) if end and end.restarted else ()
        if self._archive.state.log is None:
            self._add(added, *begun)
        else:
            self._add(added)
            for each in begun:  # each entry of an update log brings one block, which counts before the next one does
                self.let_go()
                self._add(each)
        if lets_go or end is None:
            self.let_go()

    def _our_marks(self, seen: Sequence[Mark]) -> tuple[Mark, ...]:
        """Return the marks of a window that count, and name the others."""
        found = tell_apart(self._job.store, self._source, self._archive.state, seen)
        if found.others:
            names = sorted({repr(each.name[:_SHOWN]) for each in found.others})
            self._job.say(
                f"what the log of {self._source} says of marks, and was not set in this archive, counts for nothing "
                f"({len(found.others)}): {named(names, 5)}"
            )
        return found.ours

    def _add(self, *blocks: Block) -> None:
        change = Change(kind="backup", add=blocks)
        self._job.commit(self._archive, lambda state: change, blocks[0].id)
        self._done += [each for each in blocks if each.kind == "changes"]

    def let_go(self) -> None:
        """Advance the slot past the archived log, once that counts."""
        stream = self._done[-1].stream
        if stream:
            end = self._done[-1].covers.to_position
            until_kept(self._archive, self._source, end, check=self._job.check, say=self._job.say)
            with connect(self._address) as session:
                streams.advance(session, stream.slot, end)


def window_block(
    window: FinishedWindow,
    segment: Segment,
    last: Block,
    following: FollowedTables,
    end: SegmentEnd | None,
    *,
    block: str,
    run: str,
    source: SourceRecord,
    at: str,
    since: datetime,
    cut: Cut,
    stream: Stream,
) -> Block:
    """Return the block of a window's changes.

    :param last: the block before the segment.
    :param end: the segment ends with the window; else the block records the schema from before the segment.
    :param at: position where it begins.
    :param since: time up to which everything before it is known.
    :param cut: the source's objects that it records.
    :param stream: that it was read from.
    """
    reached = segment if end else None
    time = reached.at if reached else window.transactions.last_time if window.transactions else since
    return Block(
        id=block,
        kind="changes",
        run=run,
        source=source,
        covers=Coverage(
            from_position=at,
            to_position=window.to_position,
            from_time=since,
            to_time=max(since, time),
        ),
        tables=window.tables,
        packs=window.packs,
        catalog=cut.catalog_file,
        schema_dump=cut.schema_dump,
        sequences=segment.cut.sequences,  # never those from before: a restored sequence must not go back
        schema_version=cut.version,
        schema_digest=cut.digest,
        not_included=cut.not_included,
        whole=last.whole,
        stream=stream.model_copy(
            update={
                "position": at,
                "opened": False,
                "followed": following.followed,
                "not_followed": following.not_followed,
                **cut.seen._asdict(),
                "born": following.born,
                "dropped": following.dropped if reached else (),
                "waiting": end.waiting if end else last.stream.waiting if last.stream else {},
            }
        ),
        transactions=window.transactions,
        marks=window.marks,
        ddl=window.ddl,
        passed=window.passed,
        defined=tuple(each.position for each in window.defined),
        definition_changes=tuple(
            DefinitionChange(position=each.position, objects=tuple(sorted(each.objects)))
            for each in window.defined
            if each.objects is not None
        ),
        is_cut=reached is not None,
        schema_since=reached.since if reached else "",
    )


def summary_of(committed: Sequence[Placed], to_begin: Mapping[str, str], *, seconds: float) -> dict[str, Any]:
    """Return the summary of a run.

    :param committed: its blocks.
    :param to_begin: tables that need a snapshot, each with the reason.
    """
    blocks = [placed.block for placed in committed]
    last = max(committed, key=lambda each: (each.number, each.block.kind == "changes"))
    waiting = last.block.stream.waiting if last.block.stream else {}
    result: dict[str, Any] = {
        "commit": last.number,
        **summary(last.block),
        "kind": "changes",
        "rows": sum(block.rows for block in blocks),
        "bytes": sum(block.size for block in blocks),
        "transactions": sum(block.transactions.count for block in blocks if block.transactions),
        "commits": len({placed.number for placed in committed}),
        "seconds": round(seconds, 3),
        "waiting": [each.model_dump(mode="json") for each in waiting.values()],
    }
    if begun := [table.label for block in blocks if block.supplement for table in block.tables]:
        return {**result, "begun": begun}
    return {**result, "to_begin": dict(to_begin)}
