"""Walks of a database that is followed through cases, side by side or alone."""

from __future__ import annotations

from collections.abc import Mapping

from tests.support.following.followed import Followed, agree
from tests.support.following.followed_cases import TOGETHER, Case, chosen, schemas


def follow(followed: Followed, cases: Mapping[str, Case], which: str) -> None:
    """Make the tables of one case or all, follow them through their transactions, and look at all of their moments.

    Which of the two schemas a moment takes depends on all tables: where there are those of other cases, both are taken.
    """
    made, steps = chosen(cases, which)
    followed.make(made)
    followed.note()
    followed.back_up()
    for step in steps:
        followed.run(*step)
    followed.back_up()
    agree(followed, 1, schemas=("earlier", "later") if which == TOGETHER else ("auto",))
    newest = followed.moment("latest").tables()
    assert not [oid for oid in oids_of(followed, cases, which) if newest[str(oid)].stale]


def oids_of(followed: Followed, cases: Mapping[str, Case], which: str) -> set[int]:
    """Return those of the tables that are looked at."""
    names = [f"{schema}.t" for schema in schemas(cases, which).values()]
    query = "select name::regclass::oid::int8 from unnest(%s::text[]) name"
    return {oid for (oid,) in followed.session.execute(query, (names,))}
