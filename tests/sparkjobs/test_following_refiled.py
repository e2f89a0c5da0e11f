"""Tables that are given another file, by who leaves their rows alone and by who writes them anew.

The log tells nothing of either. Jobs run without Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from holdfast.sources.postgresql.address import Address
from tests.support.followed import Followed, agree, comes_back, open_followed

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


@pytest.fixture
def followed(address: Address, tmp_path: Path) -> Iterator[Followed]:
    with open_followed(address, tmp_path / "archive") as opened:
        yield opened


def live(followed: Followed, steps: Sequence[str], made: str = _MADE) -> set[int]:
    """Follow a table through some transactions; returns its oid, if the last backup has not begun it anew."""
    followed.make([made, _ROWS])
    followed.note()
    followed.back_up()
    for step in steps:
        if step == "BACKUP":
            assert "begun" not in followed.back_up()
        elif step.startswith(("vacuum", "cluster")):
            followed.session.execute(step.encode())
            followed.note()
        else:
            followed.run(step)
    followed.run(_USED)
    begun = followed.back_up().get("begun", [])
    return {oid for (oid,) in followed.session.execute("select 't'::regclass::oid::int8") if not begun}


@pytest.mark.parametrize("case", REFILED)
def test_a_table_whose_rows_are_in_another_file_is_followed(
    followed: Followed, case: str, new_database: NewDatabase
) -> None:
    exactly = live(followed, REFILED[case])
    assert exactly
    agree(followed, 1, exactly)
    assert comes_back(followed, "latest", new_database())["stale"] == []


@pytest.mark.parametrize("case", REWRITTEN)
def test_a_table_whose_rows_may_be_others_begins_anew(followed: Followed, case: str, new_database: NewDatabase) -> None:
    assert not live(followed, REWRITTEN[case])
    agree(followed, 1)
    assert comes_back(followed, "latest", new_database())["stale"] == []


def test_a_table_that_can_have_no_large_values_begins_anew_where_it_was_emptied_and_altered(followed: Followed) -> None:
    made = "create table t (id int primary key, a char(9), b char(9), n int)"
    assert not live(followed, ("truncate t", _ROWS, "alter table t drop b"), made)
    agree(followed, 1)
