from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.setup.grants import plan_reader, plan_remove, plan_setup, run

pytestmark = pytest.mark.service


@pytest.fixture
def administrator(address: Address) -> Iterator[psycopg.Connection[Any]]:
    with connect(address) as session:
        yield session
        for role in ("keeper", "keeper_reader"):
            session.execute(f"drop role if exists {role}".encode())


def test_the_reader_can_read_and_has_no_replication_and_a_second_plan_is_empty(
    administrator: psycopg.Connection[Any], address: Address
) -> None:
    administrator.execute("create table public.t (id int)")
    database = [address.database]
    run(address, plan_setup(address, database, "keeper", replication=True))
    (plan,) = plan_reader(address, database, "keeper")
    assert plan.notes == (
        "keeper_reader reads rows for keeper, without its REPLICATION right, once it has the same password: set it in "
        'psql with \\password "keeper_reader", or one of its own in ~/.pgpass',
    )
    run(address, plan)
    rights = "select rolreplication, has_table_privilege(oid, 'public.t', 'select') from pg_roles where rolname = %s"
    assert administrator.execute(rights, ("keeper_reader",)).fetchone() == (False, True)
    assert administrator.execute(rights, ("keeper",)).fetchone() == (True, True)
    (again,) = plan_reader(address, database, "keeper")
    assert (again.parts, again.notes) == ((), ())
    run(address, plan_remove(address, database, "keeper_reader"))
    assert administrator.execute(rights, ("keeper_reader",)).fetchone() is None


def test_a_superuser_has_no_reader(administrator: psycopg.Connection[Any], address: Address) -> None:
    assert list(plan_reader(address, [address.database], "postgres")) == []
