"""What a restore lends to the login that builds, and a database that it alone may enter."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.restore.plan.plan import RestorePlan
from holdfast.postgresql.restore.rights.lent_rights import (
    by_period,
    close_database,
    lend_extensions,
    lend_references,
    lend_rights,
    open_database,
    referred,
)
from holdfast.postgresql.restore.rights.restricted_login import temporary_login
from tests.support.databases.planned_shop import entry

Session = psycopg.Connection[Any]

KEY = entry(
    3,
    "FK CONSTRAINT",
    "k",
    (1,),
    'ALTER TABLE ONLY public.refers\n    ADD CONSTRAINT k FOREIGN KEY (id) REFERENCES other."Its Table"(id);',
)
TABLE = entry(
    1, "TABLE", "refers", sql="CREATE TABLE public.refers ();\n\nALTER TABLE public.refers OWNER TO lent_owner;"
)


def plan(login: str = "", *, beside: bool = True) -> RestorePlan:
    return RestorePlan(
        tables=(), entries=(TABLE, KEY), sequences=(), materialized_views=(), roles=(), beside=beside, login=login
    )


@pytest.fixture
def login(begun: Session, address: Address) -> Iterator[Address]:
    begun.execute("create role lent_owner; create schema other; create schema third")
    begun.execute('create table other."Its Table" (id int primary key); create foreign data wrapper there')
    with temporary_login(begun, address) as made:
        yield made
    begun.execute("drop owned by lent_owner cascade; drop role lent_owner")


def test_the_table_of_a_key_is_read_of_it() -> None:
    assert referred(KEY) == '"other"."Its Table"'
    assert referred(TABLE) == ""
    period = entry(
        4, "FK CONSTRAINT", "p", sql="ALTER TABLE a.b ADD FOREIGN KEY (i, PERIOD v) REFERENCES c.d(i, PERIOD v);"
    )
    assert list(by_period(RestorePlan((), (KEY, period), (), (), ()))) == ['"c"."d"']


@pytest.mark.service
def test_beside_other_things_only_what_is_named_may_be_used(begun: Session, login: Address) -> None:
    lend_rights(begun, plan(login.user))
    may = (
        "select array(select nspname::text from pg_namespace where has_schema_privilege(%s, oid, 'create') order by 1)"
    )
    assert begun.execute(may, (login.user,)).fetchone() == (["other", "public"],)
    lend_rights(begun, plan(login.user, beside=False))
    assert begun.execute(may, (login.user,)).fetchone() == (["other", "public", "third"],)
    lend_extensions(begun, login.user)
    row = begun.execute("select has_foreign_data_wrapper_privilege(%s, 'there', 'usage')", (login.user,)).fetchone()
    assert row == (True,)


@pytest.mark.service
def test_a_login_refers_to_what_the_owner_may_refer_to(begun: Session, login: Address) -> None:
    may = "select has_table_privilege(%s, 'other.\"Its Table\"', 'references')"
    lend_references(begun, plan(login.user))
    assert begun.execute(may, (login.user,)).fetchone() == (False,)
    begun.execute('grant references on other."Its Table" to lent_owner')
    lend_references(begun, plan(login.user))
    assert begun.execute(may, (login.user,)).fetchone() == (True,)


@pytest.mark.service
def test_a_closed_database_is_entered_by_the_login_alone_until_it_is_opened(
    begun: Session, address: Address, login: Address
) -> None:
    begun.execute(f"grant connect on database {address.database} to lent_owner with grant option".encode())
    begun.execute("create role lent_stranger login password 'stranger'")
    privileges = (
        "select array(select unnest(coalesce(datacl, acldefault('d', datdba)))::text order by 1) from pg_database "
        "where datname = current_database()"
    )
    begun.execute(f"revoke connect on database {address.database} from {login.user}".encode())
    before = begun.execute(privileges).fetchone()
    try:
        with connect(address.as_user("lent_stranger", "stranger")) as stranger:
            for _ in range(2):  # a try that was killed may have closed it
                close_database(begun, login.user)
            with pytest.raises(psycopg.OperationalError):
                stranger.execute("select")
        with connect(login):
            pass
        names = ("lent_stranger", "lent_owner", login.user)
        may = "select array(select has_database_privilege(r, current_database(), 'connect') from unnest(%s::text[]) r)"
        assert begun.execute(may, (list(names),)).fetchone() == ([False, False, True],)
        open_database(begun)
        begun.execute(f"revoke connect on database {address.database} from {login.user}".encode())
        assert begun.execute(privileges).fetchone() == before
    finally:
        begun.execute("drop role lent_stranger")
