"""What follows the rows of a restore: no code of the source acts on it, nothing outside is asked, nothing ends it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.server import PostgresServer
from holdfast.postgresql.connection.session import connect
from tests.sparkjobs.restore.test_rows_first import brought_back, rows
from tests.support.following.followed import open_followed
from tests.support.jobs.inline_jobs import RunJob, failed
from tests.support.servers.postgres import create_database
from tests.support.servers.versions import running

pytestmark = pytest.mark.service

CreateDatabase = Callable[..., Address]

AUDIT = (
    "create table ddl_log (id int generated always as identity primary key, tag text)",
    "create table t (id int primary key)",
    "insert into t values (1)",
    "create materialized view mv as select count(*) from t",
    "create function log_ddl() returns event_trigger language plpgsql as "
    "$$ begin insert into public.ddl_log (tag) values (tg_tag); end $$",
    "create event trigger log_all on ddl_command_end execute function log_ddl()",
    "comment on event trigger log_all is 'keeps an account'",
)
FORBIDS = (
    "create function no_drop() returns event_trigger language plpgsql as "
    "$$ begin raise exception 'dropping is forbidden here: %', tg_tag; end $$",
    "create event trigger forbid_drop on sql_drop execute function no_drop()",
)


def event_triggers(address: Address) -> list[tuple[str, str, str]]:
    query = "select evtname::text, evtenabled::text, obj_description(oid, 'pg_event_trigger') from pg_event_trigger"
    return rows(address, f"{query} order by 1")


def test_event_triggers_of_the_source_see_nothing_of_the_restore(
    run_backup: RunJob, run_restore: RunJob, create_database: CreateDatabase
) -> None:
    source, target = create_database(*AUDIT, *FORBIDS), create_database()

    assert brought_back(run_backup, run_restore, source, target) == {}

    assert event_triggers(target) == event_triggers(source)
    assert len(event_triggers(target)) == 2
    assert rows(target, "select * from public.ddl_log") == rows(source, "select * from public.ddl_log")
    assert rows(target, "select * from public.mv") == [(1,)]


@pytest.mark.parametrize("major", [pytest.param(major, marks=pytest.mark.exhaustive) for major in (14, 16)] + [18])
def test_event_triggers_of_the_target_see_what_is_restored_at_most_and_nothing_of_ours(
    run_backup: RunJob, run_restore: RunJob, create_on: CreateDatabase, major: int
) -> None:
    source = create_on(major, *AUDIT[:3])
    target = create_on(major, *(AUDIT[number].replace("ddl_log", "seen_log") for number in (0, 4)), *FORBIDS)
    with connect(target) as session:
        session.execute("create event trigger log_all on ddl_command_end execute function public.log_ddl()")

    brought_back(run_backup, run_restore, source, target, "--tables", "public.t")

    tags = [tag for (tag,) in rows(target, "select tag from public.seen_log")]
    assert ("CREATE TABLE" in tags) == (major < 17)  # since then a restore has them off
    assert not {"CREATE SCHEMA", "DROP SCHEMA"}.intersection(tags)


@pytest.mark.exhaustive
def test_a_schema_of_ours_that_may_not_be_dropped_is_named_and_nobody_takes_it_for_unfinished(
    run_backup: RunJob, run_restore: RunJob, create_database: CreateDatabase
) -> None:
    source = create_database(*AUDIT[:3])
    target = create_database(*FORBIDS, "alter event trigger forbid_drop enable always")
    with connect(target) as session:
        session.execute("create role keeper login password 'keeper'")
        session.execute(f"grant create on database {target.database} to keeper".encode())
        session.execute("grant create on schema public to keeper")
    with connect(source) as session:
        session.execute("alter table public.t owner to keeper")
    as_keeper = Address(target.url.replace("postgres@", "keeper@"), "keeper")
    assert run_backup(source)[0] == 0

    _, record = run_restore(as_keeper, "--tables", "public.t", "--map", "public.t=public.u")

    assert record.result is not None, record.error
    left = {each["object"]: each["statement"] for each in record.result["not_restored"]}
    assert left["(left behind) schema holdfast_restore"] == "drop schema holdfast_restore cascade;"
    assert rows(target, "select * from public.u") == [(1,)]
    code, message = failed(run_restore(as_keeper, "--tables", "public.t", "--map", "public.t=public.v"))
    assert code == 5
    assert "drop schema holdfast_restore cascade" in message


@contextmanager
def listening() -> Iterator[tuple[int, list[object]]]:
    """Stand for a foreign server that is asked: yields its port, and who connected."""
    seen: list[object] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def accept() -> None:
            while True:
                try:
                    asked, who = server.accept()
                except OSError:
                    return
                seen.append(who)
                asked.close()

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield server.getsockname()[1], seen
        server.shutdown(socket.SHUT_RDWR)
        thread.join(10)


def test_no_foreign_server_is_asked_and_what_would_have_asked_it_is_named(
    run_backup: RunJob, run_restore: RunJob, create_database: CreateDatabase
) -> None:
    with listening() as (port, seen):
        source = create_database(
            "create extension postgres_fdw",
            f"create server cold foreign data wrapper postgres_fdw options (host '127.0.0.1', port '{port}')",
            "create user mapping for current_user server cold options (user 'x', password 'x')",
            "create table ev (id int, v text) partition by range (id)",
            "create table ev_hot partition of ev for values from (100) to (200)",
            "create foreign table ev_cold partition of ev for values from (0) to (100) server cold",
            "create table heir (id int)",
            "create foreign table heir_cold (id int) inherits (heir) server cold",
            "insert into ev_hot values (150, 'x')",
            "insert into heir values (1)",
            "create view through as select id from ev",
            "create function reads() returns bigint language sql begin atomic select count(*) from ev_cold; end",
            "create materialized view far as select id from through with no data",
            "create materialized view far_function as select reads() with no data",
            "create materialized view near as select id from ev_hot",
        )
        with connect(source) as session:
            session.execute("refresh materialized view public.near")
            for name in ("far", "far_function"):  # as if they had been filled while that server could be reached
                session.execute(
                    f"update pg_class set relispopulated = true where oid = 'public.{name}'::regclass".encode()
                )
        target = create_database()

        left = brought_back(run_backup, run_restore, source, target)

        assert seen == []
    assert rows(target, "select * from public.ev_hot") == [(150, "x")]
    assert rows(target, "select * from only public.heir") == [(1,)]
    assert rows(target, "select * from public.near") == [(150,)]
    assert {name: each["statement"] for name, each in left.items()} == {
        "rows of materialized view public.far": 'refresh materialized view "public"."far";',
        "rows of materialized view public.far_function": 'refresh materialized view "public"."far_function";',
        'statistics of "public"."ev"': 'analyze "public"."ev";',
        'statistics of "public"."heir"': 'analyze "public"."heir";',
    }
    assert rows(target, "select count(*) > 0 from pg_stats where tablename = 'ev_hot'") == [(True,)]


PARTITIONS = 100


@pytest.mark.exhaustive
def test_each_partition_has_statistics_of_its_own_and_the_root_is_named(tmp_path: Path) -> None:
    few_locks = {"max_locks_per_transaction": "10", "max_connections": "30", "max_wal_senders": "5"}
    with running(PostgresServer(settings=few_locks)) as server:
        source, target = create_database(server), create_database(server)
        with open_followed(source, tmp_path / "archive") as followed:
            followed.make(
                (
                    "create table m (id int primary key, t text) partition by range (id)",
                    *(
                        f"create table m_{n} partition of m for values from ({n * 10}) to ({n * 10 + 10})"
                        for n in range(PARTITIONS)
                    ),
                    "insert into m select i, 'new' from generate_series(0, 999) i",
                )
            )
            followed.back_up("changes")
            followed.run("update m set t = 'changed' where id % 7 = 0")
            followed.back_up()
            done = followed.restore("latest", target)
        assert done["equal"]
        left = [each for each in done["not_restored"] if each["object"].startswith("statistics of")]
        assert [each["statement"] for each in left] == ['analyze "public"."m";']
        with connect(target) as session:
            counted = session.execute(
                "select count(*) from pg_class where relname like 'm\\_%' and relkind = 'r' and reltuples = 10"
            )
            assert counted.fetchone() == (PARTITIONS,)
