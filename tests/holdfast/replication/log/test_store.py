"""The coordination store: its tables, its transactions, and what it says where it cannot be used."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection

from holdfast.common.errors import HoldfastError, OutcomeUnknownError, UsageError
from holdfast.replication.log import log, replicas, schema
from holdfast.replication.log.errors import StoreAwayError
from holdfast.replication.log.log import Draft, EntryChange
from holdfast.replication.log.replicas import LogState
from holdfast.replication.log.store import ENVIRONMENT, PASSWORD, CoordinationStore, clock, opened
from tests.support.jobs.command import until
from tests.support.servers.certificates import Authority
from tests.support.servers.tls_server import TlsServer

KINDS = pytest.mark.parametrize(
    "both", ["sqlite", pytest.param("postgresql", marks=pytest.mark.service)], indirect=True
)


def begun(store: CoordinationStore) -> replicas.Acting:
    def begin(c: Connection) -> replicas.Acting:
        replicas.register(c, LogState("a", "shop", "s", 0, 1), name="near", url="near", ends={}, streams={})
        return replicas.activate(c, "a", "near")

    return store.run(begin)


@KINDS
def test_its_migrations_make_the_tables_that_the_code_uses(both: CoordinationStore) -> None:
    def differences(connection: Connection) -> list[object]:
        context = MigrationContext.configure(
            connection,
            opts={"include_name": lambda name, kind, parents: name != "holdfast_version", "compare_type": True},
        )
        return list(compare_metadata(context, schema.metadata))

    assert both.run(differences) == []


@KINDS
def test_a_transaction_that_fails_leaves_nothing(both: CoordinationStore) -> None:
    acting = begun(both)

    def fail(connection: Connection) -> None:
        log.append(connection, acting, Draft("e", EntryChange(kind="backup"), planned_at=0))
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        both.run(fail)
    assert both.run(lambda c: replicas.log_state(c, "a")).head == 0
    assert both.run(lambda c: log.entries(c, "a", 1)) == []


@KINDS
def test_its_clock_goes_forward_and_tells_parts_of_seconds(both: CoordinationStore) -> None:
    times = [both.run(clock) for _ in range(5)]
    assert times == sorted(times)
    assert any(time % 1 for time in times)


_APPENDER = """
import sys
from holdfast.replication.log import log, replicas
from holdfast.replication.log.store import CoordinationStore
store = CoordinationStore.open(sys.argv[1])
acting = replicas.Acting("a", "near", 1)
for number in range(25):
    draft = log.Draft(f"{sys.argv[2]}-{number}", log.EntryChange(kind="backup"), planned_at=0)
    print(store.run(lambda c: log.append(c, acting, draft)))
"""


def test_who_is_in_the_way_of_others_again_and_again_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = 0

    def in_the_way(connection: Connection) -> None:
        nonlocal tries
        tries += 1
        given_up = Exception("could not serialize access due to concurrent update")
        given_up.sqlstate = "40001"  # type: ignore[attr-defined]
        raise sa.exc.OperationalError("update archives", {}, given_up)

    monkeypatch.setattr("holdfast.replication.log.store.PATIENCE_S", 0.2)
    with (
        CoordinationStore.open(f"sqlite:///{tmp_path}/store.db") as store,
        pytest.raises(StoreAwayError, match=r"others changed the same .* nothing was changed; try again"),
    ):
        store.run(in_the_way)
    assert tries > 1


@pytest.mark.slow
@KINDS
def test_processes_that_append_at_the_same_time_get_indexes_without_a_hole(
    both: CoordinationStore, request: pytest.FixtureRequest
) -> None:
    begun(both)
    processes = [
        subprocess.Popen([sys.executable, "-c", _APPENDER, both.url, str(number)], stdout=subprocess.PIPE, text=True)
        for number in range(2)
    ]
    said = [process.communicate()[0].split() for process in processes]
    assert [process.returncode for process in processes] == [0] * 2
    assert sorted(int(index) for each in said for index in each) == list(range(1, 51))
    assert all(each == sorted(each, key=int) for each in said)


def test_a_store_of_a_newer_release_is_refused(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/coordination.db"
    CoordinationStore.open(url).close()
    with sqlite3.connect(tmp_path / "coordination.db") as connection:
        connection.execute("update holdfast_version set version_num = '9999'")
    connection.close()
    with pytest.raises(UsageError, match="of a newer release: upgrade holdfast"):
        CoordinationStore.open(url)


@pytest.mark.parametrize("address", ["shop", "mysql://db/shop", "", "/var/lib/coordination.db"])
def test_what_is_no_address_of_a_store_is_refused_with_what_is(address: str) -> None:
    with pytest.raises(UsageError, match=r"sqlite:////path/to/file\.db or postgresql://"):
        CoordinationStore.open(address)


@pytest.mark.parametrize("address", ["user:secret@127.0.0.1/shop", "user@127.0.0.1/shop?password=secret"])
def test_a_password_does_not_belong_into_the_address(address: str) -> None:
    with pytest.raises(UsageError, match=PASSWORD) as refused:
        CoordinationStore.open(f"postgresql://{address}")
    assert "secret" not in str(refused.value)


def test_a_store_that_cannot_be_reached_is_named_with_what_still_works() -> None:
    with pytest.raises(HoldfastError, match=r"postgresql\+?.*127.0.0.1:1/shop cannot be used: .*eventual reads one"):
        CoordinationStore.open("postgresql://user@127.0.0.1:1/shop")


def test_where_nobody_says_where_it_is_that_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(ENVIRONMENT, raising=False)
    with pytest.raises(UsageError, match="say where"), opened(None):
        pass
    monkeypatch.setenv(ENVIRONMENT, f"sqlite:///{tmp_path}/coordination.db")
    with pytest.raises(UsageError, match=r"there is no coordination store at .*: check the address"), opened(None):
        pass
    with opened(None, create=True) as store:
        assert store.run(lambda c: c.execute(sa.text("select 1")).scalar_one()) == 1


@pytest.mark.parametrize("both", [pytest.param("postgresql", marks=pytest.mark.service)], indirect=True)
def test_a_session_is_used_again_and_another_begun_where_it_is_lost(both: CoordinationStore) -> None:
    def session(connection: Connection) -> int:
        return int(connection.execute(sa.text("select pg_backend_pid()")).scalar_one())

    kept = both.run(session)
    assert both.run(session) == kept
    assert both.run(lambda c: both.run(session)) != kept  # beside the one that is in use
    with CoordinationStore.open(both.url) as another:
        another.run(lambda c: c.execute(sa.text("select pg_terminate_backend(:pid, 5000)"), {"pid": kept}))
    assert both.run(session) != kept


POSTGRESQL = pytest.mark.parametrize("both", [pytest.param("postgresql", marks=pytest.mark.service)], indirect=True)


@POSTGRESQL
def test_what_its_address_says_of_sessions_is_followed(both: CoordinationStore) -> None:
    def told(connection: Connection) -> tuple[object, ...]:
        driver = connection.connection.driver_connection
        names = ("idle_in_transaction_session_timeout", "tcp_keepalives_idle", "work_mem")
        parameters = driver.info.get_parameters()  # type: ignore[union-attr]
        return (
            *(connection.execute(sa.text(f"show {name}")).scalar_one() for name in names),
            *(parameters[name] for name in ("connect_timeout", "keepalives_idle", "tcp_user_timeout")),
        )

    assert both.run(told) == ("1min", "60", "4MB", "15", "60", "120000")
    options = "options=-c%20idle_in_transaction_session_timeout%3D5s%20-c%20work_mem%3D5MB"
    with CoordinationStore.open(f"{both.url}?{options}&connect_timeout=3&tcp_user_timeout=2000") as store:
        assert store.run(told) == ("5s", "60", "5MB", "3", "60", "2000")


@POSTGRESQL
def test_who_is_suspended_in_a_transaction_does_not_keep_others_for_ever(both: CoordinationStore) -> None:
    begun(both)
    options = "options=-c%20idle_in_transaction_session_timeout%3D200ms"

    def note(reason: str) -> Callable[[Connection], object]:
        return lambda c: c.execute(schema.replicas.update().values(lost_reason=reason))

    def suspended(connection: Connection) -> None:
        note("mine")(connection)
        both.run(note("another's"))  # waits until the first one is ended

    with CoordinationStore.open(f"{both.url}?{options}") as store, pytest.raises(OutcomeUnknownError):
        store.run(suspended)
    assert both.run(lambda c: replicas.replica(c, "a", "near")).lost_reason == "another's"


@POSTGRESQL
def test_a_session_that_was_ended_for_being_idle_is_told_as_a_store_that_is_away(both: CoordinationStore) -> None:
    def ended(connection: Connection) -> None:
        connection.execute(sa.text("set local idle_in_transaction_session_timeout = '1ms'"))
        pid = connection.execute(sa.text("select pg_backend_pid()")).scalar_one()
        gone = sa.text("select count(*) from pg_stat_activity where pid = :pid")
        until(lambda: both.run(lambda c: c.execute(gone, {"pid": pid}).scalar_one()) == 0, "the end of the session")
        connection.execute(sa.text("select 1"))

    with CoordinationStore.open(both.url) as store, pytest.raises(StoreAwayError, match="cannot be used"):
        store.run(ended)


@pytest.mark.service
def test_a_store_behind_tls_is_used_only_where_its_certificate_is_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    own, other = (Authority.made(tmp_path, name) for name in ("own", "other"))
    monkeypatch.setenv("SSL_CERT_FILE", str(own.certificate))
    with TlsServer(own.server(tmp_path, host="localhost"), own) as server:
        monkeypatch.setenv(PASSWORD, server.password)
        CoordinationStore.open(server.at("localhost", sslrootcert="system")).close()
        for host, trusts, told in (
            ("localhost", other, "is of no authority that sslrootcert names"),
            ("127.0.0.1", own, "write the name that the certificate is for"),
        ):
            with pytest.raises(StoreAwayError, match=told):
                CoordinationStore.open(server.at(host, sslmode="verify-full", sslrootcert=str(trusts.certificate)))
        assert caplog.messages == []
        for _ in range(2):
            CoordinationStore.open(server.at("0.0.0.0", sslmode="require")).close()  # noqa: S104 - this machine
    (said,) = caplog.messages
    assert (
        "goes over a network with sslmode=require: it is encrypted, but the server's certificate is not checked" in said
    )
    assert server.password not in said
