from __future__ import annotations

import psycopg
import pytest

from holdfast.errors import HoldfastError, UsageError
from holdfast.sources.postgresql.address import Address
from holdfast.sources.postgresql.server import PostgresServer
from holdfast.sources.postgresql.session import SETTINGS, connect, connection_error

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
    assert shown["datestyle"] == ("ISO, DMY",)
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
def test_a_server_is_reached_by_its_socket(postgres: PostgresServer) -> None:
    where = f"postgresql://postgres@/postgres?host={postgres.folder}&port={postgres.port}"
    with connect(Address.parse(where, postgres.password)) as session:
        assert session.execute("select inet_server_addr()").fetchone() == (None,)


@pytest.mark.service
def test_a_wrong_password_is_refused_without_repeating_it(address: Address) -> None:
    with pytest.raises(HoldfastError, match="refused the log-in") as refused:
        connect(Address(address.url, "s3cret"))
    assert "s3cret" not in str(refused.value)
