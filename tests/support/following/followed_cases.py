"""Cases of a table of them, each a small history, walked through side by side in one database.

Each has a schema of its own, and what they do at a time is one transaction. Backups and restores, which are what such
a test takes its time for, are then made once for all of them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import zip_longest

from tests.support.following.followed import Followed, agree

Step = str | Sequence[str]
"""A transaction of one statement or several."""

Case = tuple[Sequence[str], Sequence[Step]]
"""What is made before a backup, and the transactions behind it."""


def schemas(cases: Collection[str]) -> dict[str, str]:
    """Return the schema in which each case is walked through."""
    return {name: f"case_{number}" for number, name in enumerate(cases)}


def side_by_side(cases: Mapping[str, Case]) -> tuple[list[Step], list[Step]]:
    """Return what is made, and the transactions behind that, of all cases at a time."""
    made: list[Step] = []
    walks: list[list[list[str]]] = []
    for name, schema in schemas(cases).items():
        first, steps = cases[name]
        path = f"set local search_path = {schema}"
        made.append([f"create schema {schema}", path, *first])
        walks.append([[path, *([step] if isinstance(step, str) else step)] for step in steps])
    return made, [[part for step in at_once for part in step] for at_once in zip_longest(*walks, fillvalue=[])]


def follow(followed: Followed, cases: Mapping[str, Case]) -> None:
    """Make the tables of all cases, follow them through their transactions, and look at all of their moments.

    Which of the two schemas a moment takes depends on all tables, so both are taken.
    """
    made, steps = side_by_side(cases)
    followed.make(made)
    followed.note()
    followed.back_up()
    for step in steps:
        followed.run(*step)
    followed.back_up()
    agree(followed, 1, schemas=("earlier", "later"))
    newest = followed.moment("latest").tables()
    query = "select name::regclass::oid::text from unnest(%s::text[]) name"
    names = [f"{schema}.t" for schema in schemas(cases).values()]
    assert not [oid for (oid,) in followed.session.execute(query, (names,)) if newest[oid].stale]
