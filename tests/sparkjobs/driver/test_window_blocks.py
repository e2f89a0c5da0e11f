"""Blocks of windows of a stream, and what a run says that has committed them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from bench.support.blocks import make_block
from holdfast.archive.format.block import Block, Born, Coverage, PassedTable, Stream, Transactions, WaitingTable
from holdfast.archive.format.block_ref import Placed
from holdfast.archive.format.document import FileRecord, TableRecord
from holdfast.postgresql.catalog.catalog import Catalog
from holdfast.postgresql.logical.stream import Seen
from holdfast.postgresql.logical.window_reader import SeenDefinition
from sparkjobs.driver.archived_log import summary_of, window_block
from sparkjobs.driver.followed_tables import FollowedTables
from sparkjobs.driver.segments import Cut, Segment
from sparkjobs.driver.start_over import SegmentEnd
from sparkjobs.tasks.changes import FinishedWindow

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
CATALOG = Catalog(
    database="shop", server_version=180006, encoding="UTF8", tables=(), sequences=(), materialized_views=(),
    references=(), roles=(),
)  # fmt: skip


def file(name: str, rows: int = 0) -> FileRecord:
    return FileRecord(path=f"data/{name}", size=5, sha256="0" * 64, rows=rows)


def cut(name: str) -> Cut:
    return Cut(CATALOG, file(f"catalog-{name}"), file(f"dump-{name}"), file(f"sequences-{name}"), f"version {name}",
               f"digest {name}", (f"left out {name}",), Seen("10:20:", "told"))  # fmt: skip


WAITING = {9: WaitingTable(table="public.odd", since=NOON, reason="it has no key")}
OLD_WAITING = {8: WaitingTable(table="public.old", since=NOON, reason="it waits")}
STREAM = Stream(slot="s", position="0/50", opened=True, publication="p", publication_oid=3, followed={1: 10})
LAST = make_block(position="0/100", at=NOON, whole=False).model_copy(
    update={"stream": STREAM.model_copy(update={"waiting": OLD_WAITING})}
)
SEGMENT = Segment(0x900, NOON + timedelta(hours=3), cut("new"), STREAM, since="0/80")
BORN = Born(oid=2, table_schema="public", name="b")
FOLLOWING = FollowedTables({1: 11, 2: 20}, {"public.x": "why"}, (), (BORN,), (7,))


def window(**more: Any) -> FinishedWindow:
    times = {"first_time": NOON, "last_time": NOON + timedelta(hours=1)}
    plain = {
        "first": "0/110",
        "to_position": "0/200",
        "tables": (TableRecord(id="1", table_schema="public", name="a", rows=3, digest="", files=(file("a", 3),)),),
        "packs": (file("pack"),),
        "transactions": Transactions(file=file("t"), count=2, **times),
        "marks": (),
        "ddl": ("0/150",),
        "passed": (PassedTable(oid=9, table_schema="public", name="p", changes=2, first="0/120", last="0/130"),),
        "defined": (SeenDefinition("0/150", frozenset({(2, 5), (1, 6)})), SeenDefinition("0/160", None)),
        "uncertain": frozenset(),
        "messages": 9,
        "bounded": False,
    }
    return FinishedWindow(**{**plain, **more})


def made(end: SegmentEnd | None = None, *, since: datetime = NOON, recorded: str = "old", **more: Any) -> Block:
    return window_block(
        window(**more), SEGMENT, LAST, FOLLOWING, end, block="b1", run="run-1", source=LAST.source, at="0/100",
        since=since, cut=cut(recorded), stream=STREAM,
    )  # fmt: skip


def test_a_block_in_the_middle_of_a_segment_tells_the_schema_from_before_it() -> None:
    block = made()
    assert (block.kind, block.covers.from_position, block.covers.to_position) == ("changes", "0/100", "0/200")
    assert (block.covers.from_time, block.covers.to_time) == (NOON, NOON + timedelta(hours=1))
    assert (block.schema_version, block.schema_digest, block.catalog.path) == (
        "version old", "digest old", "data/catalog-old",
    )  # fmt: skip
    assert (block.is_cut, block.schema_since) == (False, "")
    assert block.sequences == file("sequences-new")  # a restored sequence must not go back
    assert block.stream is not None
    assert (block.stream.dropped, block.stream.waiting) == ((), OLD_WAITING)


def test_a_block_that_ends_its_segment_tells_what_was_reached() -> None:
    block = made(SegmentEnd({}, WAITING), recorded="new")
    assert (block.is_cut, block.schema_since, block.covers.to_time) == (True, "0/80", NOON + timedelta(hours=3))
    assert block.stream is not None
    assert (block.stream.dropped, block.stream.waiting) == ((7,), WAITING)


def test_a_stream_says_what_is_followed_and_that_it_goes_on() -> None:
    stream = made().stream
    assert stream is not None
    assert (stream.position, stream.opened, stream.followed) == ("0/100", False, {1: 11, 2: 20})
    assert (stream.not_followed, [each.oid for each in stream.born]) == ({"public.x": "why"}, [2])
    assert (stream.snapshot, stream.definitions) == ("10:20:", "told")


def test_what_is_known_of_changed_definitions_is_told() -> None:
    block = made()
    assert block.defined == ("0/150", "0/160")
    assert [(each.position, each.objects) for each in block.definition_changes] == [("0/150", ((1, 6), (2, 5)))]
    assert [each.label for each in block.passed] == ["public.p"]
    assert (block.ddl, block.packs, block.whole) == (("0/150",), (file("pack"),), False)


@pytest.mark.parametrize(
    ("more", "since"),
    [({"transactions": None}, NOON), ({}, NOON + timedelta(hours=2))],
    ids=["nothing happened", "clocks went back"],
)
def test_time_never_goes_back(more: dict[str, Any], since: datetime) -> None:
    covers = made(since=since, **more).covers
    assert (covers.from_time, covers.to_time) == (since, since)


def placed(number: int, block: Block) -> Placed:
    return Placed(block, number)


def test_a_runs_summary_adds_up_its_blocks() -> None:
    told = summary_of(
        [placed(4, made()), placed(5, made(SegmentEnd({}, WAITING)))], {"public.odd": "new"}, seconds=1.23456
    )
    assert (told["commit"], told["commits"], told["kind"]) == (5, 2, "changes")
    assert (told["rows"], told["transactions"], told["seconds"]) == (6, 4, 1.235)
    assert (told["to_begin"], [each["table"] for each in told["waiting"]]) == ({"public.odd": "new"}, ["public.odd"])
    assert "begun" not in told


def test_tables_that_began_anew_are_named_in_the_place_of_those_that_are_to() -> None:
    begun = make_block(tables=(TableRecord(id="9", table_schema="public", name="odd", rows=1, digest="", files=()),))
    begun = begun.model_copy(
        update={"supplement": True, "covers": Coverage(to_position="0/200", from_time=NOON, to_time=NOON)}
    )
    told = summary_of([placed(5, begun), placed(5, made())], {"public.odd": "new"}, seconds=0)
    assert (told["begun"], told["commits"]) == (["public.odd"], 1)
    assert "to_begin" not in told
    assert told["rows"] == 3 + begun.rows
