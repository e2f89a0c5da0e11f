"""Tablespaces that entries of a dump are to be in, and whether the target has them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from holdfast.common.errors import RefusedError
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.restore.plan.plan import NotRestored, RestorePlan, without_tablespaces
from holdfast.postgresql.restore.plan.target_state import check_tablespaces
from tests.support.databases.planned_shop import entry

HEAP = "SET default_table_access_method = heap;"


def plan(*tablespaces: str) -> RestorePlan:
    table = entry(1, "TABLE", "orders", sql="CREATE TABLE public.orders ();")
    settings = [f"SET default_tablespace = {name}; {HEAP}" for name in tablespaces]
    entries = tuple(replace(table, settings=each) for each in settings)
    first = (NotRestored("view public.v", "it is not wanted"),)
    return RestorePlan(tables=(), entries=entries, sequences=(), materialized_views=(), roles=(), not_restored=first)


def test_a_plan_without_tablespaces_names_each_that_it_leaves_once() -> None:
    made = without_tablespaces(plan("slow", '"My ""own"""', "slow", "''"))
    assert {each.settings for each in made.entries} == {HEAP}
    assert made.tablespaces == ()
    reason = "what was in it is created in the tablespace of the target's database"
    left = [NotRestored(f"tablespace {name}", reason) for name in ('My "own"', "slow")]
    assert made.not_restored == (*plan().not_restored, *left)
    assert without_tablespaces(plan("''")).not_restored == plan().not_restored


@pytest.fixture
def session(address: Address) -> Iterator[Any]:
    with connect(address) as opened:
        opened.execute("set allow_in_place_tablespaces = on")
        opened.execute("create tablespace choice_fast location ''")
        opened.execute("create role choice_maker")
        yield opened
        opened.execute("reset role; drop role choice_maker")
        opened.execute("drop tablespace choice_fast")


@pytest.mark.service
def test_a_tablespace_that_is_not_there_or_that_the_role_may_not_create_in_is_refused(
    session: Any, address: Address
) -> None:
    check_tablespaces(session, address, ["choice_fast", "pg_default"])
    with pytest.raises(RefusedError, match=r"lacks tablespaces of the backup, or .*: slow, slower\. Create them first"):
        check_tablespaces(session, address, ["choice_fast", "slow", "slower"])
    session.execute("set role choice_maker")
    with pytest.raises(RefusedError, match="or choice_maker may not create in them: choice_fast"):
        check_tablespaces(session, address, ["choice_fast"])
