"""Generated columns that the target computes otherwise are named; "not equal" is said of other columns alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.common.errors import ReportedError
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.restore.rows import load
from tests.support.following.followed import Followed, open_followed

pytestmark = pytest.mark.service

NewDatabase = Callable[..., Address]

MADE = (
    "create function tax(x numeric) returns numeric language sql immutable as 'select round(x * 1.19, 2)'",
    "create table inv (id int primary key, net numeric, gross numeric generated always as (tax(net)) stored, "
    "twice numeric generated always as (net * 2) stored)",
    "insert into inv (id, net) select i, i from generate_series(1, 20) i",
    "create table parted (id int, net numeric, gross numeric generated always as (tax(net)) stored) "
    "partition by hash (id)",
    "create table parted_0 partition of parted for values with (modulus 1, remainder 0)",
    "insert into parted (id, net) select i, i from generate_series(1, 20) i",
    "create or replace function tax(x numeric) returns numeric language sql immutable as 'select round(x * 1.25, 2)'",
    "insert into inv (id, net) values (100, 100)",
    "create table fine (id int primary key, b int generated always as (id) stored)",
    "insert into fine values (1)",
)


@pytest.fixture
def followed(address: Address, tmp_path: Path) -> Iterator[Followed]:
    with open_followed(address, tmp_path / "archive") as opened:
        opened.make(MADE)
        opened.back_up()
        yield opened


def base(address: Address) -> list[Any]:
    with connect(address) as session:
        return session.execute("select id, net, twice from public.inv order by id").fetchall()


def named(said: dict[str, Any]) -> dict[str, str]:
    start = "values of generated column public."
    return {each["object"].removeprefix(start): each["reason"] for each in said["not_restored"]}


def test_the_column_whose_function_was_replaced_is_named_and_all_others_are_equal(
    followed: Followed, new_database: NewDatabase
) -> None:
    target = new_database()
    said = followed.restore("latest", target)
    assert said["equal"]
    assert base(target) == base(followed.address)
    found = named(said)
    assert found.keys() == {"inv.gross", "parted_0.gross"}
    assert found["inv.gross"].startswith("public.tax(net) gives other values here than some rows had")


@pytest.mark.exhaustive
def test_so_it_is_at_a_moment_whose_changes_have_no_such_columns(followed: Followed, new_database: NewDatabase) -> None:
    followed.run("update inv set net = net + 1 where id < 5", "delete from inv where id = 7")
    followed.run("insert into inv (id, net) values (200, 5)")
    followed.back_up()
    target = new_database()
    said = followed.restore("latest", target)
    assert said["equal"]
    assert base(target) == base(followed.address)
    assert {"inv.gross", "parted_0.gross"} <= named(said).keys() <= {"inv.gross", "inv.twice", "parted_0.gross"}


def test_another_value_of_a_column_that_is_not_generated_is_still_not_equal(
    followed: Followed, new_database: NewDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, differences = new_database(), load.differences

    def spoil(*given: Any) -> Any:
        with connect(target) as session:
            session.execute("update public.inv set net = 7 where id = 3")
        return differences(*given)

    monkeypatch.setattr(load, "differences", spoil)
    with pytest.raises(ReportedError, match=r"not equal to the archive: public\.inv has 21 rows with other contents"):
        followed.restore("latest", target)
