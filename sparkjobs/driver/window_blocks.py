"""Blocks of windows of a stream, and the summary of a run that committed them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.archive.format.block import Block, Coverage, DefinitionChange, summary

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from holdfast.archive.format.block import SourceRecord, Stream
    from holdfast.archive.format.block_ref import Placed
    from sparkjobs.driver.followed_tables import FollowedTables
    from sparkjobs.driver.segments import Cut, Segment
    from sparkjobs.driver.start_over import SegmentEnd
    from sparkjobs.tasks.changes import FinishedWindow


@dataclass(frozen=True)
class BlockContext:
    """Facts about a block that its window does not have.

    :param at: position where it begins.
    :param since: time up to which everything before it is known.
    :param cut: the source's objects that it records.
    :param stream: that it was read from.
    """

    id: str
    run: str
    source: SourceRecord
    at: str
    since: datetime
    cut: Cut
    stream: Stream


def window_block(
    window: FinishedWindow,
    context: BlockContext,
    segment: Segment,
    last: Block,
    following: FollowedTables,
    end: SegmentEnd | None,
) -> Block:
    """Return the block of a window's changes.

    :param last: the block before the segment.
    :param end: the segment ends with the window; else the block records the schema from before the segment.
    """
    reached = segment if end else None
    cut, since = context.cut, context.since
    time = reached.at if reached else window.transactions.last_time if window.transactions else since
    return Block(
        id=context.id,
        kind="changes",
        run=context.run,
        source=context.source,
        covers=Coverage(
            from_position=context.at,
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
        stream=context.stream.model_copy(
            update={
                "position": context.at,
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
