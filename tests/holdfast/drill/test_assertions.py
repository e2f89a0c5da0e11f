"""What must hold in a restored database, asked of a real server."""

from __future__ import annotations

import pytest

from holdfast.drill.assertions import Asserted, check
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect

pytestmark = pytest.mark.service


def said(address: Address, sql: str) -> str:
    (found,) = check(address, [sql])
    assert found.holds == (not found.said)
    return found.said


def test_one_row_with_true_holds_and_nothing_else_does(address: Address) -> None:
    assert said(address, "select true") == ""
    assert said(address, "select false") == "returned false"
    assert said(address, "select null::bool") == "returned null"
    assert said(address, "select 'my secret'") == "returned a value that is no boolean"
    assert said(address, "select true where false") == "returned no row"
    assert said(address, "select true from generate_series(1, 2)") == "returned more than one row"
    assert said(address, "select true, true") == "returned 2 columns"
    assert "nowhere" in said(address, "select true from nowhere")
    assert said(address, "set statement_timeout = 0") == "is no query"


def test_tables_are_found_as_people_name_them_and_stay_as_they_are(address: Address) -> None:
    with connect(address) as session:
        session.execute("create table public.orders (id int)")
    assert said(address, "select count(*) = 0 from orders where 'a%' like 'a%%'") == ""
    assert "read-only" in said(address, "insert into orders values (1) returning true")
    assert [each.holds for each in check(address, ["select broken", "select count(*) = 0 from orders"])] == [
        False,
        True,
    ]


def test_the_path_is_that_of_the_role_in_the_database(address: Address) -> None:
    with connect(address) as session:
        session.execute("create schema other; create table other.things (id int)")
    assert "things" in said(address, "select count(*) = 0 from things")
    for whose in (f"database {address.database}", f"role postgres in database {address.database}"):
        with connect(address) as session:
            session.execute(f"alter {whose} set search_path = other".encode())
        assert said(address, "select count(*) = 0 from things") == ""
        with connect(address) as session:
            session.execute(f"alter {whose} set search_path = nowhere".encode())
    assert "things" in said(address, "select count(*) = 0 from things")


def test_words_of_one_are_short() -> None:
    told = str(Asserted(f"select {'x' * 999}\n, y", False, "returned no row"))
    assert (len(told) < 250, told.endswith(": returned no row"), "\n" in told) == (True, True, False)
