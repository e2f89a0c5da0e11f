"""Tablespaces that entries of a dump are to be in, and whether the target has them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from holdfast.common.errors import RefusedError
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.dump.dump_entries import DumpEntry
from holdfast.postgresql.restore.plan.tablespace_choice import check_tablespaces, leave_tablespaces, used_by
from tests.support.databases.planned_shop import entry

HEAP = "SET default_table_access_method = heap;"


def settled(setting: str) -> DumpEntry:
    return replace(entry(1, "TABLE", "orders", sql="CREATE TABLE public.orders ();"), settings=f"{setting} {HEAP}")


@pytest.mark.parametrize(
    ("setting", "names"),
    [
        ("SET default_tablespace = fast;", ("fast",)),
        ('SET default_tablespace = "Ann\'s ""own""";', ('Ann\'s "own"',)),
        ("SET default_tablespace = '';", ()),
        ("", ()),
    ],
)
def test_a_tablespace_is_read_as_it_is_called_and_can_be_left(setting: str, names: tuple[str, ...]) -> None:
    found = settled(setting)
    assert used_by([found]) == names
    [left] = leave_tablespaces([found])
    assert used_by([left]) == ()
    assert left.settings.strip() == HEAP
    assert left.sql == found.sql


def test_each_tablespace_is_named_once_and_in_order() -> None:
    entries = [settled(f"SET default_tablespace = {name};") for name in ("slow", "fast", "slow")]
    assert used_by(entries) == ("fast", "slow")


@pytest.fixture
def session(address: Address) -> Iterator[Any]:
    with connect(address) as opened:
        opened.execute("set allow_in_place_tablespaces = on")
        opened.execute("create tablespace choice_fast location ''")
        yield opened
        opened.execute("reset role")
        opened.execute("drop tablespace choice_fast")


@pytest.mark.service
def test_what_lacks_a_tablespace_is_refused(session: Any, address: Address) -> None:
    check_tablespaces(session, address, [])
    check_tablespaces(session, address, ["choice_fast", "pg_default"])
    with pytest.raises(RefusedError, match=r"lacks tablespaces of the backup, or .*: slow, slower\. Create them first"):
        check_tablespaces(session, address, ["choice_fast", "slow", "slower"])


@pytest.mark.service
def test_a_tablespace_that_the_role_may_not_create_in_is_refused(session: Any, address: Address) -> None:
    session.execute("create role choice_maker; set role choice_maker")
    try:
        with pytest.raises(RefusedError, match="or choice_maker may not create in them: choice_fast"):
            check_tablespaces(session, address, ["choice_fast"])
        session.execute("reset role")
        session.execute("grant create on tablespace choice_fast to choice_maker")
        session.execute("set role choice_maker")
        check_tablespaces(session, address, ["choice_fast"])
    finally:
        session.execute("reset role; drop owned by choice_maker; drop role choice_maker")
