"""Tables that were dropped: who asks for one at a later moment learns the last moment that has it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.common.errors import UsageError
from holdfast.point_in_time.query import Query
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.logical import ddl_triggers
from tests.sparkjobs.restore.test_rows_first import rows
from tests.support.following.followed import Followed, open_followed

pytestmark = pytest.mark.service

NewDatabase = Callable[..., Address]

_NAMED = re.compile(
    r"public\.orders was dropped before that; the last moment that has it is --at (\S+?)( --schema earlier)?$"
)


@pytest.fixture(
    params=[
        pytest.param(False, id="log of rows", marks=pytest.mark.exhaustive),
        pytest.param(True, id="log of definitions"),
    ]
)
def followed(address: Address, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Followed]:
    with open_followed(address, tmp_path / "archive") as made:
        if request.param:
            made.make(ddl_triggers.CREATED)
        made.make(("create table orders (id int primary key)", "create table calm (id int primary key)"))
        made.make(("insert into orders select generate_series(1, 10)",))
        made.back_up()
        yield made


def last_moment(followed: Followed, target: Address, at: str = "latest") -> tuple[str, bool]:
    """Return the last moment that an error names, and whether it says to take the earlier schema."""
    with pytest.raises(UsageError, match="matches no table") as raised:
        followed.restore(at, target, "public.orders")
    named = _NAMED.search(str(raised.value).split("; the schema")[0])
    assert named, raised.value
    return named[1], bool(named[2])


@pytest.mark.parametrize(
    "changed", [pytest.param(False, id="unchanged", marks=pytest.mark.exhaustive), pytest.param(True, id="changed")]
)
def test_the_last_moment_has_all_rows_that_the_table_had(
    followed: Followed, new_database: NewDatabase, changed: bool
) -> None:
    if changed:
        followed.run("insert into orders values (11)")
    followed.run("insert into calm values (1)")
    followed.run("drop table orders")
    followed.run("create table other (id int primary key)")
    followed.run("insert into calm values (2)")
    followed.back_up()
    followed.run("create table orders (id int primary key)", "insert into orders values (99)")
    followed.back_up()
    followed.run("drop table other")
    followed.back_up()

    at, is_earlier = last_moment(followed, new_database(), "commit:2")
    target = new_database()
    followed.restore(at, target, "public.orders", schema="earlier" if is_earlier else "auto")
    assert rows(target, "select count(*), max(id) from public.orders") == [(10 + changed, 10 + changed)]


def test_a_newer_table_of_its_name_is_told_from_it(
    followed: Followed, new_database: NewDatabase, capsys: pytest.CaptureFixture[str]
) -> None:
    followed.run("drop table orders")
    followed.run("create table orders (id int primary key)", "insert into orders values (99)")
    followed.back_up()
    target = new_database()
    followed.restore("latest", target, "public.orders")
    assert rows(target, "select id from public.orders") == [(99,)]
    assert "another table of that name: public.orders was dropped before that" in capsys.readouterr().err


def test_a_query_names_the_last_moment_too(followed: Followed, tmp_path: Path) -> None:
    followed.run("drop table orders")
    followed.back_up()
    moment = followed.moment("latest")
    asked = Query(followed.store, moment, "select count(*) from orders", memory_bytes=64 << 20, spill=tmp_path)
    with pytest.raises(UsageError, match=r"public\.orders was dropped before that; the last moment"):
        next(asked.rows())
