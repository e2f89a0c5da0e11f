"""Log-ins that code of a source runs as: what they may do, and that nothing is left of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from holdfast.common.errors import HoldfastError, RefusedError
from holdfast.postgresql.catalog.own_objects import LEDGER, LOADER
from holdfast.postgresql.catalog.roles import RoleRecord, Roles
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.restore.rights.restricted_login import (
    asking_login,
    check_namesakes,
    check_password,
    drop_login,
    keep_password,
    lock_out,
    owners_login,
    powers,
    temporary_login,
)

pytestmark = pytest.mark.service

Session = psycopg.Connection[Any]


@pytest.fixture
def session(address: Address) -> Iterator[Session]:
    with connect(address) as opened:
        yield opened


def logins(session: Session) -> dict[str, tuple[bool, bool, bool]]:
    """Return our log-ins: whether each may log in, passes policies, and may do more than it should."""
    rows = session.execute(
        "select rolname, rolcanlogin, rolbypassrls, rolsuper or rolcreatedb or rolcreaterole or rolreplication "
        "from pg_roles where rolname ~ %s",
        (f"^{LOADER}",),
    )
    return {name: (may, passes, more) for name, may, passes, more in rows}


def name_here(session: Session) -> str:
    row = session.execute("select oid::text from pg_database where datname = current_database()").fetchone()
    assert row is not None
    return f"{LOADER}_{row[0]}"


def test_a_log_in_is_harmless_works_and_goes(session: Session, address: Address) -> None:
    with temporary_login(session, address) as login:
        assert login.user == name_here(session)
        assert login.password
        assert login.password not in login.url
        assert logins(session) == {login.user: (True, False, False)}
        with connect(login) as opened, pytest.raises(psycopg.errors.InsufficientPrivilege):
            opened.execute("reset session authorization; create role more superuser")
        verifier = session.execute("select rolpassword from pg_authid where rolname = %s", (login.user,)).fetchone()
        assert verifier is not None
        assert verifier[0].startswith("SCRAM-SHA-256$")
    assert logins(session) == {}


def test_it_goes_also_where_what_it_was_for_failed(session: Session, address: Address) -> None:
    with pytest.raises(ZeroDivisionError), temporary_login(session, address):
        raise ZeroDivisionError
    assert logins(session) == {}


def test_what_it_owns_keeps_it_without_a_way_in_and_the_next_takes_it_over(session: Session, address: Address) -> None:
    with temporary_login(session, address) as first:
        session.execute(f"create schema left_behind authorization {first.user}".encode())
    assert logins(session) == {first.user: (False, False, False)}
    with pytest.raises(HoldfastError), connect(first):
        pass
    with temporary_login(session, address) as second:
        assert (second.user, second.password == first.password) == (first.user, False)
        session.execute("drop schema left_behind")
    assert logins(session) == {}


def test_notes_that_name_it_keep_it_until_they_are_gone(begun: Session, address: Address) -> None:
    with temporary_login(begun, address) as login:
        begun.execute(f"insert into {LEDGER}.detached (relation, detached_by) values (1, 'x')".encode())
    assert logins(begun) == {login.user: (False, False, False)}
    begun.execute(f"delete from {LEDGER}.detached".encode())
    assert drop_login(begun) == ""
    assert logins(begun) == {}
    assert drop_login(begun) == ""


def test_one_that_may_not_log_in_is_told_with_what_to_do(session: Session, address: Address) -> None:
    session.execute(f"alter database {address.database} connection limit 0".encode())
    with pytest.raises(RefusedError) as caught, temporary_login(session, address):
        pass
    assert f"{name_here(session)}, which may not connect (" in str(caught.value)
    assert str(caught.value).endswith("say --trust-source where owners in the source may do what a superuser may here")
    assert logins(session) == {}


def test_log_ins_of_databases_that_were_dropped_go_with_the_next(session: Session, address: Address) -> None:
    session.execute(
        f"create role {LOADER}_901 login; create role {LOADER}_902 login superuser; create role {LOADER}_x; "
        f"grant set on parameter event_triggers to {LOADER}_901".encode()
    )
    try:
        with temporary_login(session, address) as login:
            assert set(logins(session)) == {login.user, f"{LOADER}_902", f"{LOADER}_x"}
    finally:
        session.execute(f"drop role {LOADER}_902, {LOADER}_x".encode())


def test_questions_of_a_superuser_are_asked_by_a_log_in_that_reads_everything(
    session: Session, address: Address
) -> None:
    session.execute("create table public.hidden as select 1 as id; alter table public.hidden enable row level security")
    with asking_login(address) as login, connect(login) as opened:
        assert login.user != address.user
        assert opened.execute("select id from public.hidden").fetchall() == [(1,)]
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            opened.execute("insert into public.hidden values (2)")
    assert logins(session) == {}


def test_who_is_no_superuser_asks_himself(session: Session, address: Address) -> None:
    session.execute("create role login_plain login password 'p'")
    try:
        plain = address.as_user("login_plain", "p")
        with asking_login(plain) as login:
            assert login is plain
    finally:
        session.execute("drop role login_plain")


def test_an_owners_login_may_do_what_its_owner_may_and_goes(begun: Session, address: Address) -> None:
    begun.execute("create role login_owner; create schema owned authorization login_owner")
    begun.execute("create schema others; create table owned.kept (id int); alter table owned.kept owner to login_owner")
    try:
        with owners_login(begun, address, "login_owner") as login:
            assert logins(begun) == {login.user: (True, False, False)}
            with connect(login) as opened:
                opened.execute("alter table owned.kept add constraint positive check (id > 0)")
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    opened.execute("create table others.made (id int)")
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    opened.execute("set role postgres")
        assert logins(begun) == {}
    finally:
        begun.execute("drop owned by login_owner cascade; drop role login_owner")


def test_a_password_that_code_has_changed_is_noticed(begun: Session, address: Address) -> None:
    with temporary_login(begun, address) as login:
        keep_password(begun)
        check_password(begun)
        with connect(login) as opened:
            opened.execute(f"alter role {login.user} password 'known'".encode())
        with pytest.raises(RefusedError, match="code of the source has changed the password"):
            lock_out(begun)


def test_a_login_that_is_locked_out_has_no_sessions(begun: Session, address: Address) -> None:
    with temporary_login(begun, address) as login:
        keep_password(begun)
        with connect(login) as opened:
            lock_out(begun)
            with pytest.raises(psycopg.OperationalError):
                opened.execute("select")
        with pytest.raises(HoldfastError), connect(login):
            pass


def test_roles_that_may_do_more_than_own_things_are_known(session: Session) -> None:
    session.execute(
        "create role powers_plain; create role powers_maker createrole; create role powers_sees bypassrls; "
        "create role powers_member; grant powers_maker to powers_member"
    )
    try:
        names = ("powers_plain", "powers_maker", "powers_sees", "powers_member", "postgres")
        assert powers(session, names) == {
            "powers_maker": False,
            "powers_sees": True,
            "powers_member": False,
            "postgres": True,
        }
    finally:
        session.execute("drop role powers_plain, powers_maker, powers_sees, powers_member")


def test_superusers_with_the_names_of_ordinary_roles_are_refused(session: Session) -> None:
    roles = tuple(RoleRecord.model_construct(name=name, superuser=False) for name in ("postgres", "other"))
    recorded = Roles(roles=roles)
    check_namesakes(session, ["other"], recorded)
    check_namesakes(session, ["postgres"], None)
    with pytest.raises(RefusedError, match="ordinary roles in the source: postgres"):
        check_namesakes(session, ["postgres", "other"], recorded)
