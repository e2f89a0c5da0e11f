"""The threat model says "cannot" only where a test shows it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "threat-model.md").read_text()
SAID = re.findall(r"^\| (?!cannot|---)(.+?) \| (.+?) \| (.+) \|$", PAGE, flags=re.MULTILINE)


@pytest.mark.parametrize(("cannot", "holds_by", "shown_by"), SAID)
def test_each_cannot_says_what_it_holds_by_and_names_a_test_that_is_there(
    cannot: str, holds_by: str, shown_by: str
) -> None:
    assert re.match(r"construction\b|list: ", holds_by), f"{cannot}: {holds_by}"
    named = re.fullmatch(r"`(tests/[\w/]+\.py)::(test_\w+)`", shown_by)
    assert named, f"{cannot}: {shown_by}"
    defined = {
        node.name for node in ast.walk(ast.parse((ROOT / named[1]).read_text())) if isinstance(node, ast.FunctionDef)
    }
    assert named[2] in defined


def test_each_attacker_has_what_is_not_possible_and_what_to_do() -> None:
    for attacker in PAGE.split("\n## ")[1:]:
        assert "**Can**" in attacker
        assert "| cannot | holds by | shown by |" in attacker
        assert "**Do**:" in attacker
    assert len(SAID) > 30
