"""The table of what DDL does to incremental backups is the one in the code, and each of its rows is proved."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

from holdfast.postgresql.logical.ddl_effects import EFFECTS, REASONS, DdlEffect

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
def test_a_row_names_the_code_that_decides_and_a_test_that_is_there(effect: DdlEffect) -> None:
    module, _, name = effect.decided.partition(":")
    found = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    file, _, test = effect.test.partition("::")
    tree = ast.parse((TESTS / file).read_text())
    assert test in {each.name for each in ast.walk(tree) if isinstance(each, ast.FunctionDef)}


def test_each_reason_to_start_over_has_a_row() -> None:
    assert {effect.reason for effect in EFFECTS if effect.reason} == set(REASONS)
    assert all((effect.effect == "starts over") == bool(effect.reason) for effect in EFFECTS)
