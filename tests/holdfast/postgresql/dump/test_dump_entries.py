"""Entries as they stand in the script of pg_restore, whatever their names and their SQL hold."""

from __future__ import annotations

import subprocess

import pytest

from holdfast.common.errors import DamagedError
from holdfast.postgresql.catalog.own_objects import LEDGER, LOG_SCHEMA, LOG_TRIGGERS, PUBLISH_SCHEMA
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.dump.dump_entries import DumpEntry, parse_script, read_entries
from holdfast.postgresql.dump.programs import need_program

HEAD = """--
-- PostgreSQL database dump
--

SET statement_timeout = 0;
SELECT pg_catalog.set_config('search_path', '', false);

SET default_tablespace = '';

SET default_table_access_method = heap;

"""
TAIL = """
-- Completed on 2026-03-01 12:00:00 UTC

--
-- PostgreSQL database dump complete
--

"""


def block(number: int, title: str, sql: str, needs: str = "", oid: int = 0) -> str:
    told = f"-- Dependencies: {needs}\n" if needs else ""
    return f"--\n-- TOC entry {number} (class 1259 OID {oid})\n{told}-- Name: {title}; Owner: ann\n--\n\n{sql}\n\n\n"


def parsed(*blocks: str) -> list[DumpEntry]:
    return list(parse_script(HEAD + "".join(blocks) + TAIL, "pre-data"))


def test_an_entry_has_what_its_comments_tell_and_the_sql_behind_them() -> None:
    [found] = parsed(
        block(215, "orders; Type: TABLE; Schema: public", "CREATE TABLE public.orders ();", "5 6 5", 16387)
    )
    assert found == DumpEntry(
        215, "pre-data", "TABLE", 1259, 16387, "public", "orders", (5, 6), "CREATE TABLE public.orders ();",
        "SET default_tablespace = ''; SET default_table_access_method = heap;",
    )  # fmt: skip
    assert (found.label, found.is_relation) == ("table public.orders", True)


def test_what_is_in_no_schema_is_told_by_its_name_alone() -> None:
    [found] = parsed(block(3, "plpgsql; Type: EXTENSION; Schema: -", "CREATE EXTENSION plpgsql;"))
    assert (found.schema, found.full_name, found.label) == ("", "plpgsql", "extension plpgsql")


def test_a_setting_stands_before_the_entry_that_it_is_for_and_lasts_until_the_next_of_its_name() -> None:
    first, second, third = parsed(
        block(1, "a; Type: TABLE; Schema: s", "CREATE TABLE s.a ();\n\nSET default_tablespace = fast;"),
        block(2, "b; Type: TABLE; Schema: s", "CREATE TABLE s.b ();"),
        block(3, "c; Type: TABLE; Schema: s", "CREATE TABLE s.c (x text DEFAULT 'SET default_tablespace = x;');"),
    )
    assert first.sql == "CREATE TABLE s.a ();"
    assert first.settings.startswith("SET default_tablespace = '';")
    assert (
        second.settings == third.settings == ("SET default_tablespace = fast; SET default_table_access_method = heap;")
    )


def test_comments_and_strings_of_a_body_begin_no_entry() -> None:
    body = "$$\n--\n-- TOC entry 9 (class 1 OID 1)\n-- Name: x; Type: TABLE; Schema: y; Owner: z\nselect 1 $$"
    sql = f"CREATE FUNCTION s.f() RETURNS int LANGUAGE sql AS {body};"
    first, second = parsed(
        block(1, "f(); Type: FUNCTION; Schema: s", sql), block(2, "a; Type: TABLE; Schema: s", "CREATE TABLE s.a ();")
    )
    assert (first.sql, second.name) == (sql, "a")


def test_names_have_their_line_breaks_again() -> None:
    table, function = parsed(
        block(1, "a b; Type: TABLE; Schema: my schema", 'CREATE TABLE "my\nschema"."a\rb" ();'),
        block(2, "f g(integer); Type: FUNCTION; Schema: s", 'CREATE FUNCTION s."f\ng"(integer) AS $$ $$;'),
    )
    assert (table.schema, table.name) == ("my\nschema", "a\rb")
    assert (function.name, function.bare_name) == ("f\ng(integer)", "f\ng")


@pytest.mark.parametrize(
    ("name", "sql", "bare"),
    [
        ("f(integer, text)", "CREATE FUNCTION s.f(a integer, b text) ...", "f"),
        ("f(x)(integer)", 'CREATE FUNCTION s."f(x)"(integer) ...', "f(x)"),
        ("lost(integer)", "nothing that names it", "lost"),
    ],
)
def test_a_routine_is_called_without_its_arguments(name: str, sql: str, bare: str) -> None:
    assert DumpEntry(1, "pre-data", "FUNCTION", 0, 0, "s", name, (), sql).bare_name == bare
    assert DumpEntry(1, "pre-data", "TABLE", 0, 0, "s", name, (), sql).bare_name == name


def test_an_entry_without_a_title_is_refused() -> None:
    script = HEAD + "--\n-- TOC entry 7 (class 1259 OID 9)\n-- Nothing\n--\n\nselect 1;\n" + TAIL
    with pytest.raises(DamagedError, match=r"says not what it is: -- TOC entry 7 \(class 1259 OID 9\)"):
        list(parse_script(script, "pre-data"))


def test_an_empty_section_has_no_entries() -> None:
    assert parsed() == []


OURS = f"""
create schema {LEDGER}; create table {LEDGER}.restore (x int); comment on table {LEDGER}.restore is 'ours';
create schema {LOG_SCHEMA}; create function {LOG_SCHEMA}.tell() returns event_trigger language plpgsql as 'begin end';
create event trigger {LOG_TRIGGERS[0]} on ddl_command_end execute function {LOG_SCHEMA}.tell();
comment on event trigger {LOG_TRIGGERS[0]} is 'ours';
create schema {PUBLISH_SCHEMA}; grant usage on schema {PUBLISH_SCHEMA} to public;
create table public.mine (id int primary key);
create publication holdfast_0123456789abcdef for table public.mine;
create publication holdfast_mine for table public.mine;
create function public.tell() returns event_trigger language plpgsql as 'begin end';
create event trigger mine on ddl_command_end execute function public.tell();
"""


@pytest.mark.service
def test_what_is_ours_stays_with_its_source(address: Address) -> None:
    with connect(address) as session:
        session.execute(OURS)
        version = session.info.server_version
    # As older releases dumped it: with what a restore had left there.
    program = need_program("pg_dump", at_least=version // 10000)
    options = ["--schema-only", "--format=custom", "--encoding=UTF8", "--dbname", address.url]
    dump = subprocess.run([program, *options], env=address.environment(), capture_output=True, check=True).stdout
    assert {each.label for each in read_entries(dump, server_version=version)} == {
        "function public.tell()",
        "table public.mine",
        "constraint public.mine mine_pkey",
        "publication holdfast_mine",
        "publication table public.holdfast_mine mine",
        "event trigger mine",
    }
