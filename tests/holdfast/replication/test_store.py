"""The coordination store: its tables, its transactions, and what it says where it cannot be used."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection

from holdfast.errors import HoldfastError, UsageError
from holdfast.replication import log, replicas, schema
from holdfast.replication.log import Draft, EntryChange
from holdfast.replication.replicas import LogState
from holdfast.replication.store import ENVIRONMENT, PASSWORD, CoordinationStore, clock, opened

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
from holdfast.replication import log, replicas
from holdfast.replication.store import CoordinationStore
store = CoordinationStore.open(sys.argv[1])
acting = replicas.Acting("a", "near", 1)
for number in range(25):
    draft = log.Draft(f"{sys.argv[2]}-{number}", log.EntryChange(kind="backup"), planned_at=0)
    print(store.run(lambda c: log.append(c, acting, draft)))
"""


@KINDS
def test_processes_that_append_at_the_same_time_get_indexes_without_a_hole(
    both: CoordinationStore, request: pytest.FixtureRequest
) -> None:
    begun(both)
    processes = [
        subprocess.Popen([sys.executable, "-c", _APPENDER, both.url, str(number)], stdout=subprocess.PIPE, text=True)
        for number in range(4)
    ]
    said = [process.communicate()[0].split() for process in processes]
    assert [process.returncode for process in processes] == [0] * 4
    assert sorted(int(index) for each in said for index in each) == list(range(1, 101))
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
