"""The table of what DDL does to incremental backups is the one in the code, and each of its rows is proved."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from holdfast.postgresql.catalog.columns import Column
from holdfast.postgresql.logical.ddl_effects import (
    EFFECTS,
    OF_THEIR_OWN,
    REASONS,
    UNCERTAIN,
    UNLOGGED,
    DdlEffect,
    can_become,
)
from tests.support.archives.evolving import ID, PRICE, WORD, column, table

ROOT = Path(__file__).parents[4]
PAGE = ROOT / "docs" / "changes.md"
TESTS = ROOT / "tests" / "sparkjobs"


def test_the_page_shows_the_table() -> None:
    lines = PAGE.read_text().splitlines()
    first = lines.index("| DDL | the table is | why |") + 2
    shown = []
    for line in lines[first:]:
        if not line.startswith("|"):
            break
        shown.append(line)
    assert shown == [effect.row() for effect in EFFECTS]


@pytest.mark.parametrize("effect", EFFECTS, ids=lambda effect: effect.ddl)
def test_a_row_names_a_test_that_is_there(effect: DdlEffect) -> None:
    file, _, test = effect.test.partition("::")
    tree = ast.parse((TESTS / file).read_text())
    assert test in {each.name for each in ast.walk(tree) if isinstance(each, ast.FunctionDef)}


def test_each_reason_to_start_over_has_a_row() -> None:
    assert {effect.reason for effect in EFFECTS if effect.reason} == set(REASONS)
    assert all((effect.effect == "starts over") == bool(effect.reason) for effect in EFFECTS)
    assert {effect.reason for effect in EFFECTS if effect.starts_over} == OF_THEIR_OWN - {UNCERTAIN} | {UNLOGGED}


@pytest.mark.parametrize(
    ("before", "now", "can"),
    [
        ((ID, WORD), (ID, WORD), True),
        ((ID, WORD), (ID, WORD, PRICE), True),
        ((ID, WORD), (ID,), True),
        ((column(WORD, type="character varying(5)", base="varchar", output="pg_catalog.varcharout"),), (WORD,), True),
        ((column(ID, type="integer", base="int4", output="pg_catalog.int4out"),), (ID,), False),
        ((ID, column(PRICE, precision=8)), (ID, PRICE), True),
        ((ID,), (column(ID, type="oid", base="oid"),), False),
        ((WORD,), (column(WORD, type="bigint", base="int8"),), False),
        ((column(PRICE, generated="s"),), (column(PRICE, generated="s", type="date", base="date"),), True),
    ],
)
def test_stored_values_become_those_of_another_type_where_postgresql_keeps_them_alike(
    before: tuple[Column, ...], now: tuple[Column, ...], can: bool
) -> None:
    assert can_become(table(1, *before), table(1, *now)) is can
