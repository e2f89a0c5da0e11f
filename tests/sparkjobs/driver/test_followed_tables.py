"""Which tables go on being followed between two records of a source's objects, and why others start over."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from holdfast.archive.format.block import Born, Stream
from holdfast.archive.format.document import FileRecord
from holdfast.common.lsn import PG_CLASS
from holdfast.postgresql.catalog.catalog import Catalog
from holdfast.postgresql.catalog.table import Table
from holdfast.postgresql.logical.ddl_effects import (
    CAME_BACK,
    FILLED,
    KEY_CHANGED,
    NEW,
    RETYPED,
    REWRITTEN,
    UNCERTAIN,
    UNLOGGED,
)
from holdfast.postgresql.logical.ddl_triggers import PG_ATTRIBUTE, PG_TYPE
from holdfast.postgresql.logical.stream import Seen
from holdfast.postgresql.logical.window_reader import SeenDefinition
from sparkjobs.driver.followed_tables import FollowedTables, followed_tables, touched_tables
from sparkjobs.driver.segments import Cut, Segment
from tests.support.databases.records import column, table

FILE = FileRecord(path="data/catalog", size=1, sha256="0" * 64)
ID, WORD = column("id"), column("word", 2, "text")


def orders(**more: Any) -> Table:
    """Return a followed table, with oid 7 and its first heap."""
    columns = more.pop("columns", (ID, WORD))
    return table(*columns, **{"key": ("id",), "filenode": 7, "form": "2:a", "oid": 7, "name": "orders", **more})


def catalog(*tables: Table, **more: Any) -> Catalog:
    return Catalog.model_validate(
        {"database": "shop", "server_version": 180006, "encoding": "UTF8", "tables": tables, "sequences": (),
         "materialized_views": (), "references": (), "roles": (), **more}
    )  # fmt: skip


def compared(
    before: Catalog, now: Catalog, *, was: dict[int, int] | None = None, followed: dict[int, int] | None = None,
    born: tuple[Born, ...] = (), begins: bool = False,
) -> FollowedTables:  # fmt: skip
    entries = {7: 70} if followed is None else followed
    stream = Stream(
        slot="s", position="0/1", publication="p", publication_oid=1, born=born, followed=entries,
        not_followed={"shop.keyless": "no key"},
    )  # fmt: skip
    cut = Cut(now, FILE, None, None, "v", "d", (), Seen())
    segment = Segment(9, datetime(2026, 3, 1, tzinfo=UTC), cut, stream)
    return followed_tables(segment, {7: 70} if was is None else was, before, begins=begins)


def reason(found: FollowedTables, label: str = "shop.orders") -> str | None:
    """Return why a table starts over; None where it is followed on."""
    assert (label in found.starting_over) == (7 not in found.followed)
    return found.not_followed.get(label)


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({}, None),
        ({"name": "orders"}, None),
        ({"filenode": 99}, None),
        ({"form": "3:b", "columns": (ID, WORD, column("more", 3))}, None),
        ({"filenode": 99, "form": "3:b", "columns": (ID, column("word", 2, "varchar"))}, REWRITTEN),
        ({"filenode": 99, "bound": "DEFAULT"}, UNLOGGED),
        ({"key": ("word",)}, KEY_CHANGED),
        ({"replica_identity": "n"}, KEY_CHANGED),
        ({"columns": (ID, column("word", 2, "date"))}, RETYPED),
    ],
    ids=["nothing", "name", "TRUNCATE", "a column more", "rows anew", "unlogged", "key", "identity", "type"],
)
def test_a_table_starts_over_where_the_log_does_not_tell_its_rows(changed: dict[str, Any], why: str | None) -> None:
    assert reason(compared(catalog(orders()), catalog(orders(**changed)))) == why


def test_a_formula_that_is_dropped_leaves_changes_without_its_values() -> None:
    computed, filled = column("twice", 3, generated="s"), column("twice", 3)
    before, now = (orders(columns=(ID, each)) for each in (computed, filled))
    assert reason(compared(catalog(before), catalog(now))) == FILLED


@pytest.mark.parametrize(("was", "why"), [({}, NEW), ({7: 69}, CAME_BACK)])
def test_a_table_that_entered_the_publication_has_a_gap(was: dict[int, int], why: str) -> None:
    found = compared(catalog(orders()), catalog(orders()), was=was)
    assert reason(found) == why
    assert found.not_followed["shop.keyless"] == "no key"


def test_a_table_that_was_dropped_is_followed_to_its_end() -> None:
    found = compared(catalog(orders()), catalog(), followed={})
    assert (found.followed, found.starting_over, found.dropped) == ({7: 70}, (), (7,))
    left = compared(catalog(orders()), catalog(orders()), followed={})
    assert (left.followed, left.dropped) == ({}, ())


def test_of_a_table_that_nothing_was_known_of_only_its_first_heap_is_sure() -> None:
    assert reason(compared(catalog(), catalog(orders()))) is None
    assert reason(compared(catalog(), catalog(orders(filenode=8)))) == REWRITTEN


@pytest.mark.parametrize(("begins", "followed"), [(True, {7: 70}), (False, {})])
def test_a_partition_that_was_made_since_is_followed_from_its_first_row_on(
    begins: bool, followed: dict[int, int]
) -> None:
    born = Born(oid=7, table_schema="shop", name="orders")
    found = compared(catalog(), catalog(orders()), was={}, born=(born,), begins=begins)
    assert found.followed == followed
    assert found.born == ((born,) if begins else ())
    known = compared(catalog(orders()), catalog(orders()), was={}, born=(born,), begins=True)
    assert known.born == ()


def test_values_of_types_that_were_altered_start_over() -> None:
    mood = column("mood", 2, "mood", base_schema="shop", kind="e", output="shop.mood_out")
    before, now = (
        catalog(orders(columns=(ID, mood)), types=types, enums={"shop.mood": ("sad",)}, enum_oids={"shop.mood": 50})
        for types in ({"label 50": "sad", "label row 50": "1"}, {"label 50": "blue", "label row 50": "2"})
    )
    assert reason(compared(before, before)) is None
    assert reason(compared(before, now)) == RETYPED


def test_a_root_starts_over_with_its_partitions_and_is_not_named() -> None:
    root = orders(kind="p")
    found = compared(catalog(root), catalog(root), was={})
    assert (found.followed, found.starting_over) == ({}, ())


FOLLOWING = FollowedTables(
    {7: 70, 8: 80}, {"shop.x": "why"}, ("shop.x",), (Born(oid=8, table_schema="shop", name="b"),), (3,), {7: 70, 9: 90}
)


def test_tables_with_an_uncertain_column_start_over() -> None:
    now = catalog(orders(), orders(oid=8, name="b"), orders(oid=9, name="x"))
    found = FOLLOWING.without({8, 9}, now)
    assert found.followed == {7: 70}
    assert found.starting_over == ("shop.x", "shop.b")
    assert found.not_followed == {"shop.x": "why", "shop.b": UNCERTAIN}
    assert (found.born, found.dropped, found.until_changed) == ((), (3,), {7: 70, 9: 90})
    assert FOLLOWING.without((), now) == FOLLOWING


@pytest.mark.parametrize(("why", "held"), [(REWRITTEN, True), (KEY_CHANGED, True), (NEW, False), (CAME_BACK, False)])
def test_what_starts_over_for_its_own_change_is_held_until_that(why: str, held: bool) -> None:
    now = catalog(orders(oid=9, name="x"))
    following = FollowedTables({7: 70}, {"shop.x": why}, ("shop.x",), until_changed={9: 90})
    assert following.held(now) == ({9: 90} if held else {})
    again = following.holding(following.held(now), now)
    assert again.followed == ({7: 70, 9: 90} if held else {7: 70})
    assert again.starting_over == (() if held else ("shop.x",))
    assert again.not_followed == ({} if held else {"shop.x": why})


@pytest.mark.parametrize(
    ("objects", "touched"),
    [
        (None, {7, 8}),
        (set(), set()),
        ({(PG_CLASS, 7), (PG_CLASS, 99)}, {7}),
        ({(PG_ATTRIBUTE, 8)}, {8}),
        ({(PG_TYPE, 50), (PG_CLASS, 7)}, {7, 8}),
        ({(2606, 7)}, set()),
    ],
    ids=["not known", "nothing", "a table", "a column", "a type", "of another catalog"],
)
def test_a_change_of_definitions_touches_what_it_names_or_may(
    objects: set[tuple[int, int]] | None, touched: set[int]
) -> None:
    change = SeenDefinition("0/1", None if objects is None else frozenset(objects))
    assert touched_tables(change, {7, 8}) == touched
