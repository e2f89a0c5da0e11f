"""Schemas along a source's log: which one a position has, and where nobody knows."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from bench.support.blocks import make_block
from holdfast.archive.format.block import Coverage, DefinitionChange, Stream
from holdfast.archive.format.block_ref import Placed
from holdfast.archive.history.coverage import Chain
from holdfast.archive.history.schema_history import SchemaChanges, between, schema_changes

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def full(name: str, position: str, *, number: int = 1, version: str = "", tells: str = "", **more: Any) -> Placed:
    """Return a snapshot; the log tells of definitions where two have the same word of that."""
    stream = Stream(slot="s", position=position, publication="s", publication_oid=1, definitions=tells)
    block = make_block(identity=name, position=position)
    return Placed(block.model_copy(update={"stream": stream, "schema_version": version, **more}), number)


def changes(since: str, upto: str, *, number: int = 2, **more: Any) -> Placed:
    covers = Coverage(from_position=since, to_position=upto, from_time=NOON, to_time=NOON)
    block = make_block(identity=f"changes to {upto}")
    return Placed(block.model_copy(update={"kind": "changes", "covers": covers, "is_cut": False, **more}), number)


def one(chain: Chain) -> SchemaChanges:
    (found,) = schema_changes(chain)
    return found


def told(*changed: Placed, tells: str = "on", digests: tuple[str, str] = ("x", "y")) -> SchemaChanges:
    """Return what is known between two snapshots at 0x100 and 0x300 of a log that tells of definitions."""
    before, after = (
        full(name, position, version=name, tells=tells, schema_digest=digest)
        for name, position, digest in zip("ab", ("0/100", "0/300"), digests, strict=True)
    )
    return one(Chain(0x100, (before, after), changed))


def test_blocks_that_record_a_schema_stand_in_the_order_of_their_positions() -> None:
    first, second, third = full("a", "0/100"), full("b", "0/300", number=5), full("c", "0/300", number=4)
    cut = changes("0/100", "0/200", is_cut=True)
    chain = Chain(0x100, (second, first, third), (cut, changes("0/200", "0/300")))
    assert chain.cuts == (first, cut, third, second)
    assert [(each.before, each.after) for each in schema_changes(chain)] == [
        (first, cut),
        (cut, third),
        (third, second),
    ]


def test_between_two_cuts_of_the_same_schema_each_position_has_it() -> None:
    found = one(Chain(0x100, (full("a", "0/100", version="7"), full("b", "0/300", version="7"))))
    assert (found.differ, found.changed_at, found.is_known) == (False, None, True)
    assert found.schema_at(0x200) is found.before


def test_between_two_schemas_nobody_knows_where_the_log_does_not_tell() -> None:
    found = one(Chain(0x100, (full("a", "0/100", version="7"), full("b", "0/300", version="8"))))
    assert (found.differ, found.changed_at, found.is_known, found.schema_at(0x200)) == (True, None, False, None)


def test_one_schema_that_was_seen_to_be_another_in_between_is_not_known() -> None:
    snapshots = (full("a", "0/100", version="7"), full("b", "0/300", version="7"))
    found = one(Chain(0x100, snapshots, (changes("0/100", "0/300", ddl=("0/200",)),)))
    assert (found.is_known, found.seen) == (False, (0x200,))
    assert [found.is_changed_by(position) for position in (0x200, 0x201)] == [False, True]


def test_versions_that_are_not_recorded_are_not_equal() -> None:
    assert one(Chain(0x100, (full("a", "0/100"), full("b", "0/300")))).differ


def test_one_change_that_is_told_parts_the_positions() -> None:
    found = told(changes("0/100", "0/300", defined=("0/200",)))
    assert (found.changed_at, found.is_known) == ((0x200,), True)
    # What a commit changes is there behind it.
    assert [found.schema_at(position) for position in (0x100, 0x200, 0x201, 0x300)] == [
        found.before,
        found.before,
        found.after,
        found.after,
    ]


def test_between_two_changes_that_are_told_nobody_knows() -> None:
    found = told(changes("0/100", "0/300", defined=("0/180", "0/280")))
    assert found.is_known is False
    assert [found.schema_at(position) for position in (0x180, 0x200, 0x281)] == [found.before, None, found.after]


def test_changes_that_were_taken_back_leave_the_earlier_schema_where_all_are_told() -> None:
    found = told(changes("0/100", "0/300", defined=("0/180", "0/280")), digests=("x", "x"))
    assert found.differ is False
    assert [found.schema_at(position) for position in (0x180, 0x200, 0x281)] == [found.before, None, found.before]


def test_equal_digests_say_nothing_where_the_log_does_not_tell() -> None:
    assert told(tells="", digests=("x", "x")).differ
    before, after = (
        full("a", "0/100", tells="one", schema_digest="x"),
        full("b", "0/300", tells="two", schema_digest="x"),
    )
    assert one(Chain(0x100, (before, after))).differ


def test_schemas_that_differ_though_nothing_is_told_are_not_known() -> None:
    # Some commands are not told of.
    found = told()
    assert (found.changed_at, found.is_known, found.schema_at(0x200)) == (None, False, None)


@pytest.mark.parametrize(
    ("position", "is_within"), [("0/FF", False), ("0/100", True), ("0/2FF", True), ("0/300", False)]
)
def test_only_what_is_told_within_counts(position: str, is_within: bool) -> None:
    found = told(changes("0/80", "0/400", defined=("0/200", position)))
    assert (int(position.partition("/")[2], 16) in (found.changed_at or ())) is is_within


def objects(position: str, *each: tuple[int, int]) -> DefinitionChange:
    return DefinitionChange(position=position, objects=each)


def test_each_object_has_the_positions_at_which_it_was_touched() -> None:
    table, index = (1259, 7), (1259, 8)
    of_both = (objects("0/180", table, index), objects("0/280", table))
    found = told(changes("0/100", "0/300", defined=("0/180", "0/280"), definition_changes=of_both))
    assert found.touches == {table: [0x180, 0x280], index: [0x180]}


def test_objects_are_known_of_all_changes_or_of_none() -> None:
    of_one = (objects("0/180", (1259, 7)),)
    found = told(changes("0/100", "0/300", defined=("0/180", "0/280"), definition_changes=of_one))
    assert found.touches is None
    assert told(tells="").touches is None


def test_any_two_cuts_can_be_asked_about() -> None:
    chain = Chain(
        0x100,
        (full("a", "0/100", tells="on"), full("b", "0/200", tells="on"), full("c", "0/300", tells="on")),
        (changes("0/100", "0/300", defined=("0/180", "0/280")),),
    )
    first, _, last = chain.cuts
    assert between(chain, first, last).changed_at == (0x180, 0x280)
