"""Tables that no backup has, as their changes tell them."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.archive.format.block import PassedTable
from holdfast.archive.format.document import TableRecord
from holdfast.archive.history.recovery_target import RecoveryTarget
from holdfast.common.lsn import PG_CLASS
from holdfast.point_in_time.passed_tables import passed_entries, passed_parts, with_passed
from holdfast.postgresql.catalog.catalog import Catalog
from holdfast.postgresql.catalog.columns import Column
from holdfast.postgresql.catalog.table import UNKNOWN_BOUND, Table
from holdfast.postgresql.dump.dump_entries import DumpEntry
from tests.support.archives.evolving import ID, PRICE, WORD, Evolving, catalog, changed, column, table

PASSING = table(9, name="passing")
ROOT = table(1, name="root", kind="p")
OTHER = table(2, ID, PRICE, name="other")


def moment(*records: TableRecord, kept: bool = True, **more: Any) -> RecoveryTarget:
    """Return the recovery target 0x200, between backups at 0x100 and 0x300."""
    made = Evolving()
    told = {"oid": 9, "table_schema": "shop", "name": "passing", "changes": 2, "kept": kept}
    made.full(0x100, catalog(ROOT, OTHER))
    made.changes(
        0x300,
        catalog(ROOT, OTHER, table(3)),
        *records,
        passed=(PassedTable.model_validate({**told, "first": "0/150", "last": "0/250", **more}),),
    )
    return made.moment(0x200)


def given(target: RecoveryTarget, *tables: Table) -> list[Table]:
    return [each for each in with_passed(target, catalog(*tables)).tables if each.bound == UNKNOWN_BOUND]


def test_a_table_has_what_its_changes_announce_and_the_columns_of_its_partitioned_table() -> None:
    root = table(1, column(ID, not_null=True), column(WORD, generated="s", name="twice", number=7), WORD,
                 name="root", kind="p", owner="boss")  # fmt: skip
    target = moment(changed(PASSING, 0x150, 0x250))

    (made,) = given(target, root, OTHER)

    assert (made.label, made.parents, made.key, made.owner) == ("shop.passing", (1,), ("id",), "boss")
    assert [(each.name, each.number, each.not_null) for each in made.columns] == [
        ("id", 1, True), ("twice", 4, False), ("word", 2, False)
    ]  # fmt: skip
    parts = passed_parts(target, [root, OTHER, made])
    assert parts.keys() == {"9"}
    assert (len(parts["9"].changes), parts["9"].base.files, parts["9"].stale) == (1, (), "")


@pytest.mark.parametrize(
    ("tables", "parents"),
    [
        ((ROOT, table(4, kind="p", key=("word",))), (1,)),
        ((ROOT, table(4, kind="p")), ()),
        ((ROOT, table(4, kind="p", parents=(1,), bound="for values in (1)")), (1,)),
        ((OTHER,), ()),
    ],
    ids=["the one with its key", "two alike", "one below the other", "none"],
)
def test_it_is_part_of_the_only_table_that_may_have_had_it(tables: tuple[Table, ...], parents: tuple[int, ...]) -> None:
    (made,) = given(moment(changed(PASSING, 0x150, 0x250)), *tables)
    assert made.parents == parents


def enum(name: str) -> Column:
    return column(WORD, type=name, base="mood", base_schema="shop", kind="e")


@pytest.mark.parametrize(
    ("target", "is_there"),
    [
        (moment(changed(PASSING, 0x150, 0x250)), True),
        (moment(changed(PASSING, 0x150), changed(PASSING, 0x160)), True),
        (moment(changed(PASSING, 0x150), changed(table(9, ID, name="passing"), 0x160)), False),
        (moment(changed(PASSING, 0x150), changed(table(9, ID, name="passing"), 0x250)), True),
        (moment(changed(PASSING, 0x150), kept=False), False),
        (moment(), False),
        (moment(changed(table(9, ID, enum("shop.gone"), name="passing"), 0x150)), False),
        (moment(changed(table(9, name="passing", table_schema="gone"), 0x150)), False),
    ],
    ids=["one form", "twice", "altered", "altered later", "not kept", "an older release", "a type that is gone",
         "a schema that is gone"],
)  # fmt: skip
def test_it_is_left_out_where_its_changes_do_not_tell_enough(target: RecoveryTarget, is_there: bool) -> None:
    assert bool(given(target, ROOT, OTHER)) is is_there


@pytest.mark.parametrize("is_cut", [True, False], ids=["a backup that came to its end", "one that did not"])
def test_it_is_left_out_where_an_ended_backup_may_have_left_changes_of_it(is_cut: bool) -> None:
    made = Evolving()
    made.full(0x100, catalog(ROOT, OTHER))
    made.not_followed = {"shop.passing": "it has no snapshot yet"}
    made.changes(0x150, catalog(ROOT, OTHER), is_cut=is_cut)
    made.not_followed = {}
    told = PassedTable(oid=9, table_schema="shop", name="passing", changes=2, first="0/160", last="0/250", kept=True)
    made.changes(0x300, catalog(ROOT, OTHER, table(3)), changed(PASSING, 0x160, 0x250), passed=(told,))
    assert bool(given(made.moment(0x200), ROOT, OTHER)) is is_cut


def test_a_name_that_another_table_has_gets_its_oid() -> None:
    target = moment(changed(PASSING, 0x150, 0x250))
    (made,) = given(target, ROOT, OTHER, table(5, name="passing"))
    assert made.label == "shop.passing_9"
    assert not given(target, ROOT, OTHER, PASSING)  # the schema that is taken has the table itself


def test_a_long_name_is_cut_before_its_oid_as_postgresql_would_cut_the_oid() -> None:
    name = "ü" * 31
    target = moment(changed(table(9, name=name), 0x150, 0x250), name=name)
    (made,) = given(target, ROOT, OTHER, table(5, name=name))
    assert made.name == "ü" * 30 + "_9"


def test_it_is_there_for_certain_up_to_its_last_change() -> None:
    assert [each.is_certain for each in moment().passed] == [True]
    assert [each.is_certain for each in moment(last="0/180").passed] == [False]
    assert moment(first="0/210").passed == ()


def entry(number: int, kind: str, oid: int, name: str, sql: str, *needs: int) -> DumpEntry:
    return DumpEntry(number, "pre-data", kind, PG_CLASS if kind == "TABLE" else 0, oid, "shop", name, needs, sql)


def test_it_is_created_as_its_partitioned_table_without_the_partitioning() -> None:
    columns = '(\n    id bigint DEFAULT (1 + 1) NOT NULL,\n    word text COLLATE "C",\n    CHECK ((id > 0))\n)'
    sql = f"CREATE TABLE shop.root {columns}\nPARTITION BY LIST (id);\n\nALTER TABLE shop.root OWNER TO shop;"
    late = DumpEntry(9, "post-data", "INDEX", 0, 7, "shop", "i", (5,), "CREATE INDEX i ON shop.root (id);")
    entries = (entry(4, "TYPE", 6, "mood", ""), entry(5, "TABLE", 1, "root", sql, 4), late)
    target = moment(changed(PASSING, 0x150, 0x250))
    known: Catalog = with_passed(target, catalog(ROOT, OTHER))

    (*_, made, last) = passed_entries(known.tables, entries)

    assert last is late
    assert made.sql == f'CREATE TABLE "shop"."passing" {columns};\n\n\nALTER TABLE "shop"."passing" OWNER TO "shop";'
    assert (made.id, made.oid, made.kind, made.needs) == (10, 9, "TABLE", (4,))
    (plain,) = (each for each in passed_entries(given(target, OTHER), entries) if each.oid == 9)
    assert plain.sql == 'CREATE TABLE "shop"."passing" ("id" bigint, "word" text);'
