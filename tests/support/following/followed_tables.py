"""Tables of a database that is followed: their oids, those that a moment has, and their gaps."""

from __future__ import annotations

from typing import Any

from holdfast.archive.history import restore_points
from tests.support.following.followed import Followed


def oid(followed: Followed, name: str) -> int:
    row = followed.session.execute("select %s::regclass::oid::int8", (name,)).fetchone()
    assert row is not None
    return int(row[0])


def begin(followed: Followed, *statements: str) -> None:
    """Make the tables, and begin to follow them."""
    followed.make(statements)
    followed.note()
    followed.back_up()


def names(followed: Followed, at: str, schema: Any = "auto") -> set[str]:
    """Return the tables with rows of a moment."""
    return {table.label for table in followed.tables_at(followed.moment(at, schema)).values()}


def gaps(followed: Followed) -> dict[str, str]:
    """Return the reason of each table's newest gap."""
    (source,) = restore_points.describe(followed.archive().state)["sources"]
    return {gap["table"]: gap["reason"] for gap in source["gaps"] if "table" in gap}


def oids(followed: Followed, *names: str) -> set[int]:
    query = "select name::regclass::oid::int8 from unnest(%s::text[]) name"
    return {oid for (oid,) in followed.session.execute(query, (list(names),))}
