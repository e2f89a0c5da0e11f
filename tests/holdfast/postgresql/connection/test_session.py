from __future__ import annotations

import psycopg
import pytest

from holdfast.common.errors import HoldfastError, UsageError
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.server import PostgresServer
from holdfast.postgresql.connection.session import connect, connection_error
from holdfast.postgresql.connection.value_settings import SETTINGS
from holdfast.postgresql.logical.ddl_triggers import CREATED, without_event_triggers

ADDRESS = Address("postgresql://me@here:5432/shop")
TO = 'connection to server at "here" (10.0.0.1), port 5432 failed: '


@pytest.mark.service
def test_a_session_makes_every_setting_whatever_the_role_or_database_says(address: Address) -> None:
    with connect(address) as session:
        database = address.database
        for name, value in {"datestyle": "'SQL, DMY'", "extra_float_digits": 0, "statement_timeout": 5}.items():
            session.execute(f"alter database {database} set {name} = {value}".encode())
    with connect(address) as session:
        shown = {name: session.execute(f"show {name}".encode()).fetchone() for name in SETTINGS}
        assert session.execute("show transaction_timeout").fetchone() == ("0",)
    assert shown["datestyle"] == ("ISO, MDY",)  # the database's order is that of no session of ours
    assert shown["search_path"] == ("",)
    for name in ("extra_float_digits", "timezone", "row_security", "statement_timeout", "client_encoding"):
        assert shown[name] == (SETTINGS[name],)


@pytest.mark.service
def test_the_session_that_holds_a_slots_snapshot_has_no_time_out_either(address: Address) -> None:
    with connect(address) as session:
        session.execute(f"alter database {address.database} set idle_in_transaction_session_timeout = '1s'".encode())
    with connect(address, replication="database") as holder:
        assert holder.execute("show idle_in_transaction_session_timeout").fetchone() == ("0",)


@pytest.mark.parametrize(
    ("said", "kind", "sentence"),
    [
        (
            TO + 'FATAL:  password authentication failed for user "me"',
            HoldfastError,
            "postgresql://me@here:5432/shop refused the log-in: set PGPASSWORD or ~/.pgpass, or correct the connection "
            '(password authentication failed for user "me")',
        ),
        (
            TO + 'FATAL:  database "passwords" does not exist',
            UsageError,
            "there is no database 'shop' at postgresql://me@here:5432/shop: correct the name, or create it with "
            "createdb",
        ),
        (
            TO + 'FATAL:  role "me" does not exist',
            UsageError,
            'postgresql://me@here:5432/shop: role "me" does not exist: correct the user name',
        ),
        (
            TO + "Connection refused\n\tIs the server running on that host and accepting TCP/IP connections?",
            HoldfastError,
            "cannot connect to postgresql://me@here:5432/shop: Connection refused. "
            "Is the server running and reachable from here?",
        ),
        (
            "failed to resolve host 'here': [Errno -2] Name or service not known",
            HoldfastError,
            "cannot connect to postgresql://me@here:5432/shop: failed to resolve host 'here': "
            "[Errno -2] Name or service not known. Is the server running and reachable from here?",
        ),
        (
            'connection is bad: invalid sslmode value: "maybe"',
            UsageError,
            'postgresql://me@here:5432/shop cannot be used: invalid sslmode value: "maybe": correct the address',
        ),
        (
            TO + "SSL error: certificate verify failed",
            HoldfastError,
            "cannot connect to postgresql://me@here:5432/shop: SSL error: certificate verify failed: the server's "
            "certificate has expired, or is of no authority that sslrootcert names: have it renewed, or name there the "
            "file with its authority's certificates",
        ),
        (
            TO + 'server certificate for "db.example" (and 1 other name) does not match host name "here"',
            HoldfastError,
            'cannot connect to postgresql://me@here:5432/shop: server certificate for "db.example" (and 1 other name) '
            'does not match host name "here": write the name that the certificate is for, or have one made for '
            "this",
        ),
        (
            TO + "server does not support SSL, but SSL was required",
            HoldfastError,
            "cannot connect to postgresql://me@here:5432/shop: server does not support SSL, but SSL was required: "
            "turn its ssl on, or connect with another sslmode",
        ),
        (
            TO + "FATAL:  unsupported startup parameter in options: search_path",
            UsageError,
            "postgresql://me@here:5432/shop is no server but a pooler or proxy, and refuses how sessions begin "
            "(unsupported startup parameter in options: search_path), without which the database's owner could say "
            "what our statements mean: connect to the server itself",
        ),
        (
            TO + "FATAL:  unsupported startup parameter: replication",
            UsageError,
            "postgresql://me@here:5432/shop is no server but a pooler or proxy, and refuses how sessions begin "
            "(unsupported startup parameter: replication), without which the database's owner could say what our "
            "statements mean: connect to the server itself",
        ),
        (
            TO + "FATAL:  sorry, too many clients already",
            HoldfastError,
            "cannot connect to postgresql://me@here:5432/shop: sorry, too many clients already. "
            "Is the server running and reachable from here?",
        ),
    ],
)
def test_what_libpq_says_becomes_one_sentence_with_what_to_do(
    said: str, kind: type[HoldfastError], sentence: str
) -> None:
    error = connection_error(ADDRESS, psycopg.OperationalError(said))
    assert type(error) is kind
    assert str(error) == sentence


@pytest.mark.service
def test_what_begins_sessions_without_our_settings_is_named_a_pooler(
    address: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What reaches the server through a pooler that leaves `options` out.
    monkeypatch.setattr(Address, "link", lambda self: f"{self.url}?client_encoding=UTF8")
    with pytest.raises(UsageError, match="is no server but a pooler or proxy, and does not pass on 'options'"):
        connect(address)


LOGIN_TRIGGER = """
create table public.ran (who name);
create function public.note() returns event_trigger language plpgsql as $$
  begin insert into public.ran values (current_user); end $$;
create event trigger on_login on login execute function public.note();
"""


@pytest.mark.service
def test_no_login_trigger_runs_as_who_connects_where_it_can_be_off(address: Address) -> None:
    with connect(address) as session:
        session.execute(LOGIN_TRIGGER.encode())
    quiet = without_event_triggers(address)
    assert not quiet.event_triggers
    connect(quiet).close()
    with connect(quiet.at_database(address.database)) as session:
        assert session.execute("select who from public.ran").fetchall() == []
        session.execute("drop event trigger on_login")


@pytest.mark.service
def test_event_triggers_that_tell_the_log_of_definitions_stay_on(address: Address) -> None:
    with connect(address) as session:
        for statement in CREATED:
            session.execute(statement.encode())
    assert without_event_triggers(address) == address


@pytest.mark.service
def test_who_may_not_turn_event_triggers_off_connects_all_the_same(address: Address) -> None:
    role = f"plain_{address.database}"
    with connect(address) as session:
        session.execute(f"create role {role} login password 'x'".encode())
    plain = Address(address.url.replace("postgres@", f"{role}@"), "x")
    assert without_event_triggers(plain) == plain
    connect(plain).close()
    with connect(address) as session:
        session.execute(f"grant set on parameter event_triggers to {role}".encode())
    assert not without_event_triggers(plain).event_triggers
    with connect(address) as session:
        session.execute(f"revoke set on parameter event_triggers from {role}".encode())
        session.execute(f"drop role {role}".encode())


@pytest.mark.service
def test_a_server_is_reached_by_its_socket(postgres: PostgresServer) -> None:
    where = f"postgresql://postgres@/postgres?host={postgres.folder}&port={postgres.port}"
    with connect(Address.parse(where, postgres.password)) as session:
        assert session.execute("select inet_server_addr()").fetchone() == (None,)


def test_a_parameter_that_no_client_takes_is_wrong_usage() -> None:
    with pytest.raises(UsageError, match='cannot be used: invalid URI query parameter: "odd": correct the address'):
        connect(Address("postgresql://me@127.0.0.1:1/shop?odd=1"))


@pytest.mark.service
def test_a_wrong_password_is_refused_without_repeating_it(address: Address) -> None:
    with pytest.raises(HoldfastError, match="refused the log-in") as refused:
        connect(Address(address.url, "s3cret"))
    assert "s3cret" not in str(refused.value)
