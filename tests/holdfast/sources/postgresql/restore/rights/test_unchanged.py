"""What belongs to the log-in while rows come in is the same when it is given to others."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from holdfast.common.errors import RefusedError
from holdfast.sources.postgresql.connection.address import Address
from holdfast.sources.postgresql.connection.session import connect
from holdfast.sources.postgresql.restore.rights.search_paths import lend
from holdfast.sources.postgresql.restore.rights.unchanged import check_unchanged, note_held

pytestmark = pytest.mark.service

Session = psycopg.Connection[Any]
LOGIN = "unchanged_login"

OBJECTS = f"""
create role {LOGIN} login password 'p'; create role unchanged_other;
set role {LOGIN};
create table public.held (id int, g int generated always as (id + 1) stored, constraint positive check (id > 0));
create table public.root (id int) partition by range (id);
create table public.part partition of public.root for values from (0) to (10);
create function public.f() returns int language sql as 'select 1';
create domain public.d as int constraint small check (value < 100);
reset role;
create table public.apart (id int);
"""


@pytest.fixture
def session(undone: Session) -> Session:
    undone.execute(f"grant create on schema public to public; {OBJECTS}".encode())
    note_held(undone, LOGIN)
    return undone


@pytest.mark.parametrize(
    "statement",
    [
        "insert into public.held values (1)",
        "alter table public.held drop constraint positive",
        "alter table public.held alter g drop expression",
        "alter domain public.d drop constraint small",
        "alter table public.root detach partition public.part",
        "create table public.apart_too (id int)",
        "alter table public.apart add x int",
        "analyze public.held",
    ],
)
def test_what_a_restore_itself_does_is_no_change(session: Session, statement: str) -> None:
    session.execute(statement.encode())
    check_unchanged(session, LOGIN)


@pytest.mark.parametrize(
    ("statement", "name"),
    [
        ("create or replace function public.f() returns int language sql as 'select 2'", r"public\.f\(\)"),
        ("alter function public.f() set work_mem = '1MB'", r"public\.f\(\)"),
        ("create trigger t before insert on public.held execute function suppress_redundant_updates_trigger()",
         r"public\.held"),
        ("create rule r as on insert to public.held do instead nothing", r"public\.held"),
        ("grant select on public.held to unchanged_other", r"public\.held"),
        ("grant select (id) on public.held to unchanged_other", r"public\.held"),
        ("alter table public.held add x int", r"public\.held"),
        ("alter table public.held alter id set default 7", r"public\.held"),
        ("alter table public.held add constraint more check (true)", r"public\.held"),
        ("create policy p on public.held", r"public\.held"),
        ("create statistics public.s on (id + 1) from public.held", r"public\.held"),
        ("alter domain public.d set default 7", r"public\.d"),
        ("create function public.more() returns int language sql as 'select 1'", r"public\.more\(\)"),
        ("create table public.more (id int)", r"public\.more"),
        ("drop function public.f()", r"public\.f\(\)"),
        ("alter table public.held rename to other", r"public\.held, public\.other"),
    ],
)  # fmt: skip
def test_what_code_of_the_source_changes_or_makes_is_refused(session: Session, statement: str, name: str) -> None:
    session.execute(f"set role {LOGIN}; {statement}; reset role".encode())
    with pytest.raises(RefusedError, match=f"or has made more of it: {name}\\. It would belong to others from now on"):
        check_unchanged(session, LOGIN)


def test_what_is_noted_once_stays_so(session: Session) -> None:
    session.execute(f"set role {LOGIN}; create table public.more (id int); reset role".encode())
    note_held(session, LOGIN)
    with pytest.raises(RefusedError, match=r"public\.more\."):
        check_unchanged(session, LOGIN)


def test_a_condition_that_comes_again_without_a_look_at_its_rows_is_the_same(session: Session) -> None:
    session.execute("alter table public.held drop constraint positive")
    session.execute("alter table public.held add constraint positive check (id > 0) not valid")
    check_unchanged(session, LOGIN)


def test_search_paths_are_compared_when_they_have_been_given_back(session: Session) -> None:
    session.execute(f"set role {LOGIN}; alter function public.f() set search_path = public; reset role".encode())
    check_unchanged(session, LOGIN)
    with pytest.raises(RefusedError, match=r"public\.f\(\)"):
        check_unchanged(session, LOGIN, is_built=True)


def test_a_path_that_was_lent_before_is_not_the_functions_own(undone: Session) -> None:
    undone.execute(f"grant create on schema public to public; {OBJECTS}".encode())
    lend(undone, [("public.f()", "public")])
    note_held(undone, LOGIN)
    with pytest.raises(RefusedError, match=r"public\.f\(\)"):
        check_unchanged(undone, LOGIN, is_built=True)
    undone.execute("alter function public.f() reset search_path")
    check_unchanged(undone, LOGIN, is_built=True)


def test_sessions_of_the_log_in_are_ended_first(begun: Session, address: Address) -> None:
    begun.execute(f"create role {LOGIN} login password 'p'".encode())
    note_held(begun, LOGIN)
    try:
        with connect(address.as_user(LOGIN, "p")) as other:
            check_unchanged(begun, LOGIN)
            with pytest.raises(psycopg.OperationalError):
                other.execute("select 1")
    finally:
        begun.execute(f"drop role {LOGIN}".encode())
