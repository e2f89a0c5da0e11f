"""What of a dump a superuser's session runs, and what it refuses."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from holdfast.common.errors import RefusedError
from holdfast.postgresql.dump.dump_entries import DumpEntry
from holdfast.postgresql.restore.plan.plan import RestorePlan
from holdfast.postgresql.restore.rights.superuser_entries import (
    run_as_superuser,
    superuser_entries,
    superuser_settings,
    without_native_code,
)
from tests.support.databases.planned_shop import entry

Session = psycopg.Connection[Any]


def plan(*entries: DumpEntry) -> RestorePlan:
    return RestorePlan(tables=(), entries=entries, sequences=(), materialized_views=(), roles=())


SETTINGS = frozenset({"session_replication_role"})

KINDS = [
    ("EXTENSION", "CREATE EXTENSION IF NOT EXISTS hstore WITH SCHEMA public;", False),
    ("EVENT TRIGGER", "CREATE EVENT TRIGGER e ON sql_drop EXECUTE FUNCTION s.f();", False),
    ("PUBLICATION", "CREATE PUBLICATION p FOR ALL TABLES WITH (publish = 'insert');", False),
    ("PUBLICATION", "CREATE PUBLICATION p WITH (publish = 'insert');", None),
    ("FUNCTION", "CREATE FUNCTION s.f() RETURNS int\n    LANGUAGE c\n    AS '$libdir/x', 'f';", True),
    ("FUNCTION", "CREATE FUNCTION s.f() RETURNS int\n    LANGUAGE internal\n    AS 'int4in';", True),
    ("FUNCTION", "CREATE FUNCTION s.f() RETURNS int\n    LANGUAGE plpython3u\n    AS $$return 1$$;", True),
    ("FUNCTION", "CREATE FUNCTION s.f() RETURNS int\n    LANGUAGE sql\n    AS $$select 1 -- LANGUAGE c $$;", None),
    ("FUNCTION", "CREATE FUNCTION s.f() RETURNS int\n    LANGUAGE sql LEAKPROOF\n    AS $$select 1$$;", False),
    (
        "FUNCTION",
        "CREATE FUNCTION s.f() RETURNS int\n    LANGUAGE sql\n    SET session_replication_role TO 'replica'\n"
        "    AS $$select 1$$;",
        False,
    ),
    ("TYPE", "CREATE TYPE s.t (\n    INTERNALLENGTH = 4,\n    INPUT = s.t_in,\n    OUTPUT = s.t_out\n);", True),
    ("TYPE", "CREATE TYPE s.t AS (\n\tinput integer\n);", None),
    ("AGGREGATE", "CREATE AGGREGATE s.a(int) (SFUNC = s.f, STYPE = internal);", True),
    ("AGGREGATE", "CREATE AGGREGATE s.a(int) (SFUNC = s.f, STYPE = integer, INITCOND = '0');", None),
    ("TABLE", "CREATE TABLE s.t ();", None),
]


@pytest.mark.parametrize(("kind", "sql", "is_native"), KINDS, ids=lambda value: str(value)[:40])
def test_entries_for_a_superuser_are_known(kind: str, sql: str, is_native: bool | None) -> None:
    found = superuser_entries([entry(1, kind, "x", sql=sql)], SETTINGS)
    assert found.get(1) is is_native


def test_what_is_said_of_an_entry_goes_with_it() -> None:
    entries = [
        entry(1, "EXTENSION", "hstore", sql="CREATE EXTENSION hstore;"),
        entry(2, "COMMENT", "EXTENSION hstore", needs=(1,), sql="COMMENT ON EXTENSION hstore IS 'x';"),
        entry(3, "TABLE", "t", sql="CREATE TABLE s.t ();"),
        entry(4, "COMMENT", "TABLE t", needs=(3,), sql="COMMENT ON TABLE s.t IS 'x';"),
        entry(5, "ACL", "FUNCTION pg_ls_dir(text)", sql="GRANT ALL ON FUNCTION pg_catalog.pg_ls_dir(text) TO ann;"),
        entry(6, "SCHEMA", "public", sql="-- *not* creating schema, since initdb creates it"),
        entry(7, "COMMENT", "SCHEMA public", needs=(6,), sql="COMMENT ON SCHEMA public IS '';"),
    ]
    assert superuser_entries(entries, SETTINGS) == {1: False, 2: False, 5: False, 6: False, 7: False}


def test_native_code_is_left_out_with_what_needs_it_and_named() -> None:
    native = entry(1, "FUNCTION", "f()", sql="CREATE FUNCTION s.f() RETURNS int\n    LANGUAGE c\n    AS 'x';")
    using = entry(2, "VIEW", "v", needs=(1,), sql="CREATE VIEW s.v AS SELECT s.f();")
    other = entry(3, "TABLE", "t", sql="CREATE TABLE s.t ();")
    made = plan(native, using, other)
    kept = without_native_code(made, superuser_entries(made.entries, SETTINGS))
    assert kept.entries == (other,)
    assert [each.what for each in kept.not_restored] == [native.label, using.label]
    assert "Sign or encrypt the archive, or say --trust-source" in kept.not_restored[0].reason
    needing = entry(4, "TABLE", "n", needs=(1,), sql="CREATE TABLE s.n (id int DEFAULT s.f());")
    made = plan(native, needing)
    with pytest.raises(RefusedError, match=r"table public\.n needs function public\.f\(\), which is native code"):
        without_native_code(made, superuser_entries(made.entries, SETTINGS))


FORGED = {
    "another statement": ("COMMENT", "COMMENT ON SCHEMA public IS 'x'; CREATE ROLE forged_role SUPERUSER;"),
    "another kind": ("COMMENT", "CREATE ROLE forged_role SUPERUSER;"),
    "another kind that begins alike": ("EVENT TRIGGER", "CREATE TRIGGER t BEFORE INSERT ON t EXECUTE FUNCTION f();"),
    "a membership": ("ACL", "GRANT postgres TO forged_plain;"),
    "a parameter": ("ACL", "GRANT ALTER SYSTEM ON PARAMETER archive_command TO forged_plain;"),
    "a block": ("COMMENT", "DO $$ BEGIN CREATE ROLE forged_role SUPERUSER; END $$;"),
    "a program": ("COMMENT", "COPY (SELECT 1) TO PROGRAM 'true';"),
    "an owner": ("TABLE", "ALTER TABLE public.t VALIDATE CONSTRAINT c, OWNER TO forged_plain;"),
    "a wrapper that asks": (
        "FOREIGN DATA WRAPPER",
        "CREATE FOREIGN DATA WRAPPER w VALIDATOR public.f OPTIONS (a 'b');",
    ),
    "a subscription that connects": (
        "SUBSCRIPTION",
        "CREATE SUBSCRIPTION s CONNECTION 'host=127.0.0.1' PUBLICATION p;",
    ),
    "a publication that asks": ("PUBLICATION", "CREATE PUBLICATION p FOR TABLE public.t WHERE (public.f());"),
    "a first value": (
        "AGGREGATE",
        "CREATE AGGREGATE public.a(int) (SFUNC = public.f, STYPE = internal, INITCOND = '0');",
    ),
    "a schema with more inside": ("SCHEMA", "CREATE SCHEMA s CREATE VIEW v AS SELECT 1;"),
    "in place of a function": (
        "FUNCTION",
        "CREATE OR REPLACE FUNCTION pg_catalog.now() RETURNS timestamptz LANGUAGE sql LEAKPROOF AS $$select null$$;",
    ),
    "native code in a comment": ("COMMENT", "CREATE FUNCTION public.f() RETURNS int LANGUAGE internal AS 'int4in';"),
    "a function in a comment": (
        "COMMENT",
        "CREATE FUNCTION public.f() RETURNS int LANGUAGE sql SECURITY DEFINER AS $$select 1$$;",
    ),
    "a setting": ("COMMENT", "SET session_replication_role = replica;"),
    "an escaped string": (
        "COMMENT",
        "COMMENT ON SCHEMA public IS E'\\''; CREATE ROLE forged_role SUPERUSER; --';",
    ),
}


@pytest.mark.service
@pytest.mark.parametrize("what", FORGED)
def test_a_forged_entry_runs_nothing_else(what: str, begun: Session) -> None:
    begun.execute("drop role if exists forged_plain; create role forged_plain; create table public.t (id int)")
    try:
        kind, sql = FORGED[what]
        forged = entry(1, kind, "SCHEMA public", sql=sql)
        with pytest.raises(RefusedError):
            run_as_superuser(begun, forged, "forged_plain")
        assert begun.execute("select from pg_roles where rolname = 'forged_role'").fetchall() == []
        assert begun.execute("select from pg_auth_members where member = 'forged_plain'::regrole").fetchall() == []
        assert begun.execute("select obj_description('public'::regnamespace)").fetchone() != ("x",)
    finally:
        begun.execute("drop role forged_plain")


ALLOWED = [
    ("TYPE", "CREATE TYPE public.shell;", "SHELL TYPE"),
    ("LANGUAGE", "CREATE OR REPLACE PROCEDURAL LANGUAGE plpgsql;", "PROCEDURAL LANGUAGE"),
    ("FAMILY", "CREATE OPERATOR FAMILY public.o USING btree;", "OPERATOR FAMILY"),
    ("PUBLICATION", "CREATE PUBLICATION p FOR ALL TABLES;\nALTER PUBLICATION p OWNER TO postgres;", "PUBLICATION"),
    ("FUNCTION", "GRANT ALL ON FUNCTION pg_catalog.pg_ls_dir(text) TO pg_monitor;", "ACL"),
]


@pytest.mark.service
@pytest.mark.parametrize(("name", "sql", "kind"), ALLOWED, ids=[kind for _, _, kind in ALLOWED])
def test_what_pg_dump_writes_of_these_kinds_runs(name: str, sql: str, kind: str, begun: Session) -> None:
    run_as_superuser(begun, entry(1, kind, name, sql=sql), "postgres")


@pytest.mark.service
def test_the_server_itself_refuses_a_second_statement(begun: Session) -> None:
    with pytest.raises(psycopg.errors.SyntaxError, match="multiple commands"):
        begun.execute("comment on schema public is 'x'; create role forged_role superuser", binary=True)


@pytest.mark.service
def test_what_has_an_owner_belongs_to_the_login_and_the_rest_to_its_own(begun: Session) -> None:
    begun.execute("create role login_held")
    try:
        made = "CREATE FUNCTION public.f() RETURNS text\n    LANGUAGE sql LEAKPROOF SECURITY DEFINER\n    AS $$x$$;"
        owned = "ALTER FUNCTION public.f() OWNER TO postgres;"
        begun.execute("set check_function_bodies = off; grant create on schema public to login_held")
        run_as_superuser(begun, entry(1, "FUNCTION", "f()", sql=f"{made}\n{owned}"), "login_held")
        row = begun.execute("select proowner::regrole::text from pg_proc where proname = 'f'").fetchone()
        assert row == ("login_held",)
        procedure = "CREATE PROCEDURE public.p()\n    LANGUAGE sql\n    SET log_statement TO 'none'\n    AS $$x$$;"
        owned = "ALTER PROCEDURE public.p() OWNER TO postgres;"
        run_as_superuser(begun, entry(3, "PROCEDURE", "p()", sql=f"{procedure}\n{owned}"), "login_held")
        wrapper = "CREATE FOREIGN DATA WRAPPER w;\nALTER FOREIGN DATA WRAPPER w OWNER TO postgres;"
        run_as_superuser(begun, entry(2, "FOREIGN DATA WRAPPER", "w", sql=wrapper), "login_held")
        assert begun.execute("select fdwowner::regrole::text from pg_foreign_data_wrapper").fetchone() == ("postgres",)
    finally:
        begun.execute("drop owned by login_held cascade; drop role login_held")


@pytest.mark.service
def test_settings_that_only_superusers_make_are_known(begun: Session) -> None:
    found = superuser_settings(begun)
    assert {"session_replication_role", "log_statement"} <= found
    assert found.isdisjoint({"search_path", "work_mem"})


@pytest.mark.service
def test_no_function_stays_with_the_superuser(begun: Session) -> None:
    made = "CREATE FUNCTION public.g() RETURNS int\n    LANGUAGE sql LEAKPROOF SECURITY DEFINER\n    AS $$select 1$$;"
    with pytest.raises(RefusedError, match="would have a superuser's rights"):
        run_as_superuser(begun, entry(1, "FUNCTION", "g()", sql=made), "postgres")
    assert begun.execute("select from pg_proc where proname = 'g'").fetchall() == []
    two = f"{made}\nCREATE FUNCTION public.h() RETURNS int LANGUAGE internal AS 'int4in';"
    with pytest.raises(RefusedError, match="more than one thing"):
        run_as_superuser(begun, entry(1, "FUNCTION", "g()", sql=two), "postgres")
