"""Each part of a runbook that has commands is followed by a test, which fails where it leaves one of them out."""

from __future__ import annotations

import importlib
from collections import defaultdict
from pathlib import Path

import pytest

from tests.support.runbooks.page import RUNBOOKS, commands, followed_parts, parts

PAGES = sorted(path.stem for path in RUNBOOKS.glob("*.md"))


def _followed() -> dict[str, list[tuple[str, ...]]]:
    """Return by runbook the headings that each test follows."""
    found = defaultdict(list)
    for path in sorted(Path(__file__).parent.glob("test_*.py")):
        if path.stem == Path(__file__).stem:
            continue
        for test in vars(importlib.import_module(f"tests.docs.runbooks.{path.stem}")).values():
            for mark in getattr(test, "pytestmark", []) if callable(test) else []:
                if mark.name == "follows":
                    page, *headings = mark.args
                    found[page].append(tuple(headings))
    return found


@pytest.mark.parametrize("page", PAGES)
def test_each_part_of_a_runbook_that_has_commands_is_followed_by_a_test(page: str) -> None:
    there = parts(page)
    followed = followed_parts(_followed(), page)
    assert followed <= set(there), f"a test follows parts of {page}.md that are not there"
    left = {heading for heading, text in there.items() if commands(text)} - followed
    assert not left, f"no test follows {sorted(left)} of {page}.md"
