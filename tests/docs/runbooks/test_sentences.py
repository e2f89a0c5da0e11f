"""Each sentence in a table of a runbook is one that the product can say.

Whoever is called at night looks for the words on the screen. The words are compared with the texts in the product's
code: to provoke each of them would take a test each, and most have one beside their module.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PRODUCT = ("holdfast", "sparkjobs", "plugins", "locking")
RUNBOOKS = sorted((ROOT / "docs" / "runbooks").glob("*.md"))
GAP = "…"

NO_SENTENCE = re.compile(r"^(--|[A-Z_]+$|[\w-]+[=:] ?\S*$|\S+$|holdfast |kill )")
"""Options, variables, words and commands: other tests know whether there are such."""


OF_OTHERS = {
    "No space left on device": "the operating system",
    "Permission denied": "the operating system",
    "permission denied": "PostgreSQL",
    "Connection refused": "the operating system",
    "Could not connect to the endpoint URL": "botocore",
    "Failed to establish a new connection": "urllib3",
    "certificate verify failed": "OpenSSL",
    "does not match host name": "libpq",
    "could not access directory": "PostgreSQL",
    "is not available": "PostgreSQL",
}
"""Sentences that our own ones pass on, and what says them."""


@cache
def texts() -> str:
    """All texts of the product, a line each; where a value stands in one, there is a gap."""
    found = set()
    for package in PRODUCT:
        for path in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.JoinedStr):
                    found.add(
                        "".join(str(each.value) if isinstance(each, ast.Constant) else GAP for each in node.values)
                    )
                elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                    found.add(node.value)
    return "\n".join(" ".join(text.split()) for text in found)


def sentences(page: Path) -> Iterator[str]:
    """Yield what a page's tables quote in the column of what is said."""
    for table in re.findall(r"(?:^\|.*\n)+", page.read_text(), re.MULTILINE):
        head, _, *rows = ([cell.strip() for cell in line.split("|")] for line in table.splitlines())
        for column in [number for number, name in enumerate(head) if re.search(r"\b(says|reason|sentence)\b", name)][
            :1
        ]:
            for row in rows:
                quoted = re.findall(r"`([^`]+)`", row[column])
                yield from (each for each in quoted if not NO_SENTENCE.match(each) and each not in OF_OTHERS)


def can_be_said(sentence: str) -> bool:
    """Return whether each part between two gaps is in a text; a value may stand in any place of it."""
    parts = [part for part in (each.strip(" .,:;()") for each in sentence.split(GAP)) if part]
    return all(re.search(re.escape(part), texts()) for part in parts)


@pytest.mark.parametrize("page", RUNBOOKS, ids=lambda page: page.stem)
def test_what_a_table_quotes_can_be_said(page: Path) -> None:
    assert [sentence for sentence in sentences(page) if not can_be_said(sentence)] == []


def test_there_are_sentences_and_one_that_nothing_says_is_found() -> None:
    assert len([sentence for page in RUNBOOKS for sentence in sentences(page)]) > 100
    assert not can_be_said("the slot … has flown away")
