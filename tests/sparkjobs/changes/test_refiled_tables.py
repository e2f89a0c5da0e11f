"""Tables that are given another file, by who leaves their rows alone and by who writes them anew.

The log tells nothing of either. Jobs run without Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest

import pytest

from holdfast.postgresql.connection.address import Address
from tests.support.following.followed import Followed, agree, agree_at, comes_back

pytestmark = pytest.mark.service

NewDatabase = Callable[..., Address]

_MADE = "create table t (id int primary key, a text, b varchar(9), n int)"
_ROWS = "insert into t select i, 'a' || i, 'b' || i, i from generate_series(1, 4) i"
_USED = "update t set a = 'used' where id = 2"

REFILED: dict[str, Sequence[str]] = {
    "a column was dropped, and its space freed": ("alter table t drop b", "vacuum full t"),
    "its space was freed, and a column dropped": ("vacuum full t", "alter table t drop b"),
    "emptied and given another column's name": ("truncate t", _ROWS, "alter table t rename b to c"),
    "emptied and widened": ("truncate t", "alter table t alter b type text", "insert into t values (1, 'a', 'longer')"),
    "put in order, and no column is empty any more": ("cluster t using t_pkey", "alter table t alter b set not null"),
    "its space was freed, and a column added": ("vacuum full t", "alter table t add c text default 'in the catalog'"),
    "emptied, once a column was added": ("alter table t add c text default 'there'", "BACKUP", "truncate t", _ROWS),
}
"""The same rows are in another file, or none: the log tells all that there is to tell."""

REWRITTEN: dict[str, Sequence[str]] = {
    "emptied and computed": ("truncate t", _ROWS, "alter table t alter n type int using n + 1"),
    "computed and its space freed": ("alter table t alter n type int using n + 1", "vacuum full t"),
    "given random values": ("truncate t", _ROWS, "alter table t add r float default random()"),
    "a column's value was in the catalog": ("alter table t add c text default 'once'", "vacuum full t"),
    "and was at a backup": ("alter table t add c text default 'once'", "BACKUP", "vacuum full t"),
    "and was computed by nobody": ("alter table t add c text default 'once'", "BACKUP", "cluster t using t_pkey"),
    "emptied, and a column added": ("truncate t", _ROWS, "alter table t add c text"),
}
"""Nobody can tell what rows have, or could not if something else had happened that looks the same."""

SHORT: dict[str, Sequence[str]] = {
    "emptied and altered, where there can be no large values": ("truncate t", _ROWS, "alter table t drop b")
}
"""Of a table that can have no large values."""

_MADE_SHORT = "create table t (id int primary key, a char(9), b char(9), n int)"


def live(followed: Followed, cases: Mapping[str, Sequence[str]]) -> set[str]:
    """Follow a table of each case through some transactions, each in a schema of its own.

    Cases are walked through side by side: where one has a backup between its steps, those without begin behind it.

    :return: the schemas of those that the last backup has not begun anew.
    """
    schemas = [f"case_{number}" for number in range(len(cases))]
    halves = [_split(steps) for steps in cases.values()]
    followed.make(
        (f"create schema {schema}", f"set local search_path = {schema}", _MADE_SHORT if name in SHORT else _MADE, _ROWS)
        for schema, name in zip(schemas, cases, strict=True)
    )
    followed.note()
    followed.back_up()
    for half in (0, 1):
        walks = [[(schema, step) for step in steps[half]] for schema, steps in zip(schemas, halves, strict=True)]
        for at_once in zip_longest(*walks):
            _step(followed, [each for each in at_once if each])
        if half == 0 and any(steps[0] for steps in halves):
            assert "begun" not in followed.back_up()
    _step(followed, [(schema, _USED) for schema in schemas])
    begun = followed.back_up().get("begun", [])
    assert set(begun) <= {f"{schema}.t" for schema in schemas}
    return {schema for schema in schemas if f"{schema}.t" not in begun}


def _split(steps: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """Return the steps before a backup and those behind it."""
    at = steps.index("BACKUP") if "BACKUP" in steps else -1
    return steps[: max(at, 0)], steps[at + 1 :]


def _step(followed: Followed, steps: Sequence[tuple[str, str]]) -> None:
    """Do something in some schemas: in one transaction, but for what must have none around it."""
    for schema, step in steps:
        if step.startswith(("vacuum", "cluster")):
            followed.session.execute(f"set search_path = {schema}".encode())
            followed.session.execute(step.encode())
    followed.session.execute("set search_path = public")
    plain = [each for each in steps if not each[1].startswith(("vacuum", "cluster"))]
    followed.run(*(each for schema, step in plain for each in (f"set local search_path = {schema}", step)))


def oids(followed: Followed, schemas: set[str]) -> set[int]:
    """Return those of the tables of some schemas."""
    query = "select (schema || '.t')::regclass::oid::int8 from unnest(%s::text[]) schema"
    return {oid for (oid,) in followed.session.execute(query, (sorted(schemas),))}


def test_tables_are_followed_or_begin_anew_side_by_side(followed: Followed, new_database: NewDatabase) -> None:
    """All cases in one database: which of two schemas a moment takes depends on all of them, so it is said."""
    goes_on = live(followed, {**REFILED, **REWRITTEN, **SHORT})
    assert goes_on == {f"case_{number}" for number in range(len(REFILED))}
    agree(followed, 1, oids(followed, goes_on), schemas=("later",))
    agree_at(followed, len(followed.moments) - 3, schema="earlier")  # to which some later changes do not fit
    assert comes_back(followed, "latest", new_database())["stale"] == []
