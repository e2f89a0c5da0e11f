"""Cases of a table of them, each a small history: walked through alone, or side by side in one database.

Side by side each has a schema of its own, and what they do at a time is one transaction. Backups and restores, which
are what such a test takes its time for, are then made once for all of them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import zip_longest
from typing import Any

import pytest

Step = str | Sequence[str]
"""A transaction of one statement or several."""

Case = tuple[Sequence[str], Sequence[Step]]
"""What is made before a backup, and the transactions behind it."""

TOGETHER = "side by side"


def together_and_alone(cases: Collection[str]) -> list[Any]:
    """Return parameters: all cases side by side for each run of the tests, each of them alone for the long ones."""
    return [TOGETHER, *(pytest.param(each, marks=pytest.mark.exhaustive) for each in cases)]


def schemas(cases: Collection[str], which: str) -> dict[str, str]:
    """Return the schema in which each of the chosen cases is walked through.

    :param which: one of them, or `TOGETHER`.
    """
    return {each: f"case_{number}" for number, each in enumerate(cases)} if which == TOGETHER else {which: "public"}


def chosen(cases: Mapping[str, Case], which: str) -> tuple[list[Step], list[Step]]:
    """Return what is made, and the transactions behind that: of one case, or of all of them at a time."""
    made: list[Step] = []
    walks: list[list[list[str]]] = []
    for name, schema in schemas(cases, which).items():
        first, steps = cases[name]
        here = f"set local search_path = {schema}"
        made.append([f"create schema if not exists {schema}", here, *first])
        walks.append([[here, *([step] if isinstance(step, str) else step)] for step in steps])
    return made, [[each for step in at_once for each in step] for at_once in zip_longest(*walks, fillvalue=[])]
