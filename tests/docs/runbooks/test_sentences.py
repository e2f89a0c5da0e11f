"""Each sentence in a table of a runbook is one that the product can say.

Whoever is called at night looks for the words on the screen. Those of restores that are cheap to provoke are provoked.
The others are compared with the texts in the product's code, and most have a test beside their module.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.restore.plan import ledger
from tests.support.runbooks.shop import Shop

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


def says(page: str, sentence: str, words: str) -> bool:
    """Return whether a page's table quotes a sentence, and words of the product have it."""
    assert sentence in sentences(ROOT / "docs" / "runbooks" / f"{page}.md")
    return re.search(".+".join(map(re.escape, sentence.split(GAP))), words) is not None


@pytest.mark.service
def test_a_restore_that_is_refused_says_what_the_tables_quote(shop: Shop) -> None:
    unfinished = shop.new()
    with connect(unfinished) as session:
        ledger.create_ledger(session, ledger.TargetClaim("other", "block", (), (), commit=1, run="run"))
        ledger.note_step(session, "create 0")
    empty, full = shop.new().url, shop.database.url
    for page, sentence, code, words in (
        ("restore", "is not empty", 5, ("--to", full)),
        ("restore", "an unfinished restore of commit …", 5, ("--to", unfinished.url)),
        ("restore", "cannot be restored to …", 5, ("--to", empty, "--at", "2000-01-01T00:00:00Z")),
        ("restore-a-table", "the target has … already", 5, ("--to", full, "--tables", "public.orders")),
        ("restore-a-table", "matches no table", 2, ("--to", empty, "--tables", "public.nothing")),
        ("restore-a-table", "rows already, and --data-only fills empty tables", 5, ("--to", full, "--data-only")),
        ("restore-a-table", "there is no table …", 5, ("--to", empty, "--data-only")),
    ):
        done = shop.run("restore", "shop", *words)
        assert (done.code, says(page, sentence, done.err)) == (code, True), (sentence, done.err)
    for file in (shop.place / "data").rglob("*.parquet"):
        file.unlink()
    done = shop.run("restore", "shop", "--to", empty)
    assert (done.code, says("restore", "is missing from", done.err)) == (4, True), done.err
