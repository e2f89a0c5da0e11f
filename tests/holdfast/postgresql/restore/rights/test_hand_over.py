"""Everything goes to its owner, with its privileges, when the login can log in no more."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.parallel_sessions import Sessions
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.dump.dump_entries import DumpEntry
from holdfast.postgresql.restore.plan import ledger
from holdfast.postgresql.restore.plan.plan import RestorePlan
from holdfast.postgresql.restore.rights.hand_over import forbid_writing, hand_over, holders_of, mark_owners
from holdfast.postgresql.restore.rights.restricted_login import (
    drop_login,
    keep_password,
    lock_out,
    temporary_login,
)
from holdfast.postgresql.restore.rights.superuser_entries import superuser_entries
from tests.support.databases.planned_shop import entry

pytestmark = pytest.mark.service

Session = psycopg.Connection[Any]

ONE, TWO = "given_one", '"given Two"'


def owned(number: int, kind: str, name: str, sql: str, what: str, owner: str) -> DumpEntry:
    return entry(number, kind, name, sql=f"{sql};\n\nALTER {what} OWNER TO {owner};")


F = "CREATE FUNCTION s.f() RETURNS int LANGUAGE sql AS $$select 1$$"
A = "CREATE AGGREGATE s.a(*) (SFUNC = int8inc, STYPE = bigint, INITCOND = '0')"
PLUS = "CREATE OPERATOR s.+ (FUNCTION = int4pl, LEFTARG = int, RIGHTARG = int)"
MADE = (
    owned(1, "TABLE", "t", "CREATE TABLE s.t (id serial PRIMARY KEY)", "TABLE s.t", ONE),
    owned(2, "TABLE", "u", "CREATE TABLE s.u (id int)", "TABLE s.u", TWO),
    owned(3, "VIEW", "v", "CREATE VIEW s.v AS SELECT 1", "VIEW s.v", ONE),
    owned(4, "FUNCTION", "f()", F, "FUNCTION s.f()", TWO),
    owned(5, "AGGREGATE", "a(*)", A, "AGGREGATE s.a(*)", TWO),
    owned(6, "DOMAIN", "d", "CREATE DOMAIN s.d AS int", "DOMAIN s.d", ONE),
    owned(7, "TYPE", "c", "CREATE TYPE s.c AS (a int)", "TYPE s.c", ONE),
    owned(8, "TYPE", "r", "CREATE TYPE s.r AS RANGE (subtype = int)", "TYPE s.r", ONE),
    owned(9, "OPERATOR", "+", PLUS, "OPERATOR s.+ (int, int)", ONE),
    owned(10, "STATISTICS", "st", "CREATE STATISTICS s.st ON (id + 1), (id + 2) FROM s.t", "STATISTICS s.st", ONE),
)
PRIVILEGES = """
REVOKE ALL ON TABLE s.t FROM given_one;
GRANT SELECT ON TABLE s.t TO given_one;
GRANT SELECT ON TABLE s.t TO "given Two" WITH GRANT OPTION;
SET SESSION AUTHORIZATION "given Two";
GRANT SELECT ON TABLE s.t TO PUBLIC;
RESET SESSION AUTHORIZATION;
"""
DEFAULT = "ALTER DEFAULT PRIVILEGES FOR ROLE given_one IN SCHEMA s GRANT SELECT ON TABLES TO PUBLIC;"
GRANTS = (
    entry(20, "ACL", "TABLE t", (1,), PRIVILEGES),
    entry(21, "ACL", "FUNCTION f()", (4,), "REVOKE ALL ON FUNCTION s.f() FROM PUBLIC;"),
    entry(22, "DEFAULT ACL", "DEFAULT PRIVILEGES FOR TABLES", (), DEFAULT),
    entry(23, "ACL", "TABLE gone", (99,), "GRANT given_one TO PUBLIC;"),
)

OWNERS = """
select i.identity, pg_get_userbyid(d.refobjid)::text from pg_shdepend d, pg_identify_object(d.classid, d.objid, 0) i
where d.dbid = (select oid from pg_database where datname = current_database()) and d.deptype = 'o'
  and i.identity like 's.%' order by 1
"""


@pytest.fixture
def login(begun: Session, address: Address) -> Iterator[Address]:
    begun.execute(
        'create role given_one; create role "given Two"; create schema s; grant usage on schema s to "given Two"'
    )
    with temporary_login(begun, address) as made:
        begun.execute(f"grant create, usage on schema s, public to {made.user}".encode())
        begun.execute(f"grant create on database {address.database} to {made.user}".encode())
        ledger.let_write(begun, made.user)
        keep_password(begun)
        yield made
    begun.execute('drop owned by given_one, "given Two" cascade; drop role given_one, "given Two"')


def test_objects_and_privileges_come_to_their_owners(begun: Session, login: Address) -> None:
    plan = RestorePlan((), (*MADE, *GRANTS), (), (), (), login=login.user)
    plan = replace(plan, superusers=superuser_entries(plan.entries, ()))
    holders = holders_of(begun, plan)
    assert holders["given_one"] == login.user
    assert holders["given Two"].startswith(f"{login.user}_")
    with Sessions(login, 2) as sessions:
        with connect(login) as session:
            for each in MADE:
                session.execute(each.sql.partition("ALTER ")[0].encode())
        forbid_writing(begun, plan, ["s.t", "s.u"])
        with connect(login) as session, pytest.raises(psycopg.errors.InsufficientPrivilege):
            session.execute("insert into s.u values (1)")
        forbid_writing(begun, plan, ["s.t", "s.u"], is_over=True)
        assert mark_owners(begun, sessions, plan, holders) == ()
    lock_out(begun)

    for _ in range(2):  # another try finds nothing more to give
        left = hand_over(begun, plan, holders)

    assert [each.what for each in left] == ["privileges public.TABLE gone"]
    assert "is no form that may be" in left[0].reason
    assert begun.execute(OWNERS).fetchall() == [
        ("s.+(integer,integer)", "given_one"),
        ("s.a()", "given Two"),
        ("s.c", "given_one"),
        ("s.d", "given_one"),
        ("s.f()", "given Two"),
        ("s.r", "given_one"),
        ("s.st", "given_one"),
        ("s.t", "given_one"),
        ("s.t_id_seq", "given_one"),
        ("s.u", "given Two"),
        ("s.v", "given_one"),
    ]
    assert begun.execute("select relacl::text from pg_class where oid = 's.t'::regclass").fetchone() == (
        '{given_one=r/given_one,"\\"given Two\\"=r*/given_one","=r/\\"given Two\\""}',
    )
    assert begun.execute("select proacl::text from pg_proc where proname = 'f'").fetchone() == (
        '{"\\"given Two\\"=X/\\"given Two\\""}',
    )
    assert begun.execute("select count(*) from pg_default_acl").fetchone() == (1,)
    assert drop_login(begun) == ""
    assert begun.execute("select rolname from pg_roles where rolname ~ '^holdfast_loader'").fetchall() == []
