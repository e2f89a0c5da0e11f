"""What code of a source can do in the sessions of the login that builds: nothing to definitions and notes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from holdfast.common.errors import RefusedError
from holdfast.postgresql.catalog.own_objects import LEDGER
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.restore.plan import ledger
from holdfast.postgresql.restore.rights.guard import RESET, lower_guard, raise_guard
from holdfast.postgresql.restore.rights.restricted_login import temporary_login

pytestmark = pytest.mark.service

Session = psycopg.Connection[Any]

BY = {
    "a block": ("", "do $$ begin {} ; end $$"),
    "a dynamic statement": ("", "do $$ begin execute $x$ {} $x$ ; end $$"),
    "a handler": ("", "do $$ begin begin {} ; exception when division_by_zero then null; end; end $$"),
    "a function in SQL": (
        "create or replace function public.f() returns void language sql as $$ {} $$",
        "select public.f()",
    ),
    "a procedure that commits": (
        "create or replace procedure public.p() language plpgsql as $$ begin commit; {} ; end $$",
        "call public.p()",
    ),
    "a deferred trigger": (
        "drop table if exists public.on; create table public.on (id int); create or replace function public.t() "
        "returns trigger language plpgsql as $$ begin {} ; return null; end $$; create constraint trigger t after "
        "insert on public.on deferrable initially deferred for each row execute function public.t(); "
        "alter table public.on enable always trigger t",
        "insert into public.on values (1)",
    ),
}
"""How code of a source comes to a statement: what makes it, and what runs it."""

CHANGES = (
    "create schema other",
    "create temporary table here (id int)",
    "alter function public.mine() security definer",
    "grant execute on function public.mine() to public",
    "drop function public.mine()",
    "comment on function public.mine() is 'x'",
    f"insert into {LEDGER}.loaded values ('create 1 INDEX', null)",
    f"delete from {LEDGER}.loaded",
    f"insert into {LEDGER}.created (class, object) values (1259, 1)",
    f"insert into {LEDGER}.detached (relation) values (1)",
)


@pytest.fixture
def login(begun: Session, address: Address) -> Iterator[Address]:
    """The login of a restore, with a function of its own, behind the guard."""
    with temporary_login(begun, address) as made:
        begun.execute(f"grant create, temporary on database {address.database} to {made.user}".encode())
        begun.execute(f"grant create, usage on schema public to {made.user}".encode())
        ledger.let_write(begun, made.user)
        raise_guard(begun, made)
        yield made
        begun.execute(f"drop owned by {made.user} cascade".encode())


@pytest.mark.parametrize("by", BY)
def test_nested_definitions_and_notes_are_refused(by: str, login: Address) -> None:
    made, run = BY[by]
    with connect(login) as session:
        session.execute("set check_function_bodies = off")
        session.execute("create function public.mine() returns int language sql as 'select 1'")
        for change in CHANGES:
            session.execute(made.replace("{}", change).encode())
            with pytest.raises(psycopg.errors.InsufficientPrivilege, match="may not change what is being restored"):
                session.execute(run.replace("{}", change).encode())


def test_statements_of_the_restore_itself_pass(login: Address) -> None:
    with connect(login) as session:
        for change in CHANGES:
            session.execute("create or replace function public.mine() returns int language sql as 'select 1'")
            session.execute(change.encode())
            session.execute("drop schema if exists other; drop table if exists here")


def test_a_database_that_turns_event_triggers_off_has_it_all_the_same(begun: Session, address: Address) -> None:
    begun.execute(f"alter database {address.database} set event_triggers = off".encode())
    with temporary_login(begun, address) as login:
        ledger.let_write(begun, login.user)
        raise_guard(begun, login)


def test_others_may_define_what_they_like(begun: Session, login: Address) -> None:
    begun.execute("do $$ begin create schema other; end $$")


def test_a_setting_that_code_has_made_is_gone_before_the_next_definition(login: Address) -> None:
    with connect(login) as session:
        session.execute("do $$ begin perform pg_catalog.set_config('search_path', 'public', false); end $$")
        session.execute(f"{RESET} create table public.looked as select pg_catalog.current_setting('search_path') as it")
        assert session.execute("select it from public.looked").fetchone() == ("",)


def test_a_server_that_lets_no_event_trigger_fire_is_refused(begun: Session, address: Address) -> None:
    with temporary_login(begun, address) as login:
        ledger.let_write(begun, login.user)
        begun.execute(f"alter role {login.user} set event_triggers = off".encode())
        with pytest.raises(RefusedError, match="event triggers do not run"):
            raise_guard(begun, login)


def test_a_targets_own_event_triggers_do_not_fire_in_its_sessions(begun: Session, login: Address) -> None:
    begun.execute(
        "create function public.forbid() returns event_trigger language plpgsql as "
        "$$ begin raise exception 'forbidden'; end $$; create event trigger forbid on ddl_command_start "
        "execute function public.forbid()"
    )
    with connect(login) as session:
        session.execute("create table public.made (id int)")
    begun.execute("drop event trigger forbid")


def test_nothing_of_it_stays(begun: Session, login: Address) -> None:
    lower_guard(begun)
    lower_guard(begun)
    assert begun.execute("select evtname from pg_event_trigger").fetchall() == []
    with connect(login) as session:
        session.execute("do $$ begin create temporary table here (id int); end $$")
