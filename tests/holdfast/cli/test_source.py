"""`holdfast source`: what whoever sets a database up for backups sees."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.archive import Archive
from holdfast.postgresql.catalog.catalog_queries import read_tables
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.server import PostgresServer
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.dump import programs
from holdfast.postgresql.logical.stream import drop_stream, open_stream, stream_name
from holdfast.storage import ObjectStore
from tests.support.jobs.command import Finished, RunCommand

pytestmark = pytest.mark.service

ROLE = "source_role"


@pytest.fixture
def shop(postgres: PostgresServer, address: Address, monkeypatch: pytest.MonkeyPatch) -> Iterator[Address]:
    """A database with one table; the password is in the environment, and the role is gone afterwards."""
    monkeypatch.setenv("PGPASSWORD", postgres.password)
    with connect(address) as session:
        session.execute("create schema hr; create table hr.staff (id int)")
        yield address
        if session.execute("select 1 from pg_roles where rolname = %s", (ROLE,)).fetchone():
            session.execute(f"drop owned by {ROLE}".encode())
            session.execute(f"drop role {ROLE}".encode())


SUPERUSER = "postgres is a superuser, and backups need to read only"


def test_a_database_that_is_ready_is_said_to_be(holdfast: RunCommand, shop: Address) -> None:
    done = holdfast("source", "check", shop.url, "--json")
    assert done.code == 0
    assert (done.value["ok"], done.value["problems"], whats(done)) == (True, [], [SUPERUSER])
    assert done.value["facts"]["databases"][shop.database]["tables"] == 1
    assert done.value["facts"]["pg_dump"].startswith("18.6 at ")
    shown = holdfast("source", "check", shop.url)
    assert (shown.code, shown.err) == (0, "")
    assert shown.out.splitlines() == [
        f"PostgreSQL {done.value['facts']['server']} at {shop.url}: role postgres, wal_level logical",
        "TLS: sslmode prefer, on this machine",
        f"ok   {shop.database}: 1 table, 0 B",
        f"warn {SUPERUSER}",
        "     make a role for them: holdfast source setup … --role backup",
    ]


def test_all_that_is_in_the_way_is_listed_with_what_to_do(
    holdfast: RunCommand, shop: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    with connect(shop) as session:
        session.execute(f"create role {ROLE} login password 'r'".encode())
    monkeypatch.setenv("PGPASSWORD", "r")
    monkeypatch.setattr(programs, "version_of", lambda program: None)
    url = shop.url.replace("postgres@", f"{ROLE}@")
    done = holdfast("source", "check", url, "--json")
    assert (done.code, done.value["ok"]) == (5, False)
    assert [(each["database"], each["what"].partition(" of version")[0]) for each in done.value["problems"]] == [
        (None, "no pg_dump"),
        (shop.database, f"{ROLE} may not use the schemas hr, and may not read hr.staff"),
    ]
    assert all(each["do"] for each in done.value["problems"] + done.value["warnings"])
    shown = holdfast("source", "check", url)
    assert shown.code == 5
    assert f"FAIL {ROLE} may not use the schemas hr" in shown.out
    assert f"     grant pg_read_all_data to {ROLE}" in shown.out
    assert "warn the log position of a backup will be approximate" in shown.out
    assert shown.err == "holdfast: a backup would be refused or fail: fix the lines marked FAIL\n"


def test_databases_of_one_server_are_looked_at_together(
    holdfast: RunCommand, shop: Address, new_database: Callable[..., Address]
) -> None:
    other = new_database("encoding SQL_ASCII template template0")
    done = holdfast("source", "check", shop.url, "--databases", shop.database, "--databases", other.database, "--json")
    assert done.code == 5
    assert [each["database"] for each in done.value["problems"]] == [other.database]
    assert set(done.value["facts"]["databases"]) == {shop.database, other.database}
    shown = holdfast("source", "check", shop.url, "--databases", shop.database, "--databases", other.database).out
    assert f"ok   {shop.database}: " in shown
    assert f"FAIL {other.database}: the database's encoding is SQL_ASCII" in shown


def test_a_database_that_the_role_may_not_enter_is_a_problem_among_the_others(
    holdfast: RunCommand, shop: Address, new_database: Callable[..., Address], monkeypatch: pytest.MonkeyPatch
) -> None:
    other = new_database()
    with connect(shop) as session:
        session.execute(f"create role {ROLE} login password 'r' in role pg_read_all_data".encode())
        session.execute(f"revoke connect on database {other.database} from public".encode())
    monkeypatch.setenv("PGPASSWORD", "r")
    url = shop.url.replace("postgres@", f"{ROLE}@")
    done = holdfast("source", "check", url, "--databases", shop.database, "--databases", other.database, "--json")
    assert done.code == 5
    (problem,) = done.value["problems"]
    assert (problem["database"], problem["do"]) == (other.database, "grant it CONNECT on it")


def test_a_name_is_found_in_archives_yaml(holdfast: RunCommand, shop: Address) -> None:
    source = f'{{url: "{shop.url}", tables: ["crm.*"]}}'
    Path("archives.yaml").write_text(f"archives: {{a: {{url: /a, sources: {{shop: {source}, crm: {source}}}}}}}")
    done = holdfast("source", "check", "shop", "--json")
    assert done.code == 5
    assert "--tables crm.* matches no table" in done.value["problems"][0]["what"]
    assert "--archive" not in holdfast("source", "check", "crm", "--archive", "a").err
    assert "archives.yaml has no source of this name" in holdfast("source", "check", "gone").err
    Path("archives.yaml").write_text(
        f"archives: {{a: {{url: /a, sources: {{shop: {source}}}}}, b: {{url: /b, sources: {{shop: {source}}}}}}}"
    )
    done = holdfast("source", "check", "shop")
    assert done.code == 2
    assert "several archives have it (a, b): say which with --archive" in done.err


def test_a_script_is_printed_and_changes_nothing(holdfast: RunCommand, shop: Address) -> None:
    shown = holdfast("source", "setup", shop.url, "--role", ROLE)
    assert shown.code == 0
    assert f'CREATE ROLE "{ROLE}" LOGIN;\n' in shown.out
    assert "PASSWORD" not in shown.out
    assert f'set one in psql with \\password "{ROLE}"' in shown.err
    assert holdfast("source", "setup", shop.url, "--role", ROLE).out == shown.out
    assert holdfast("source", "remove", shop.url, "--role", ROLE).out == "-- nothing to do\n"


def test_set_up_and_removal_say_what_they_changed_and_the_second_time_that_nothing_is_left(
    holdfast: RunCommand, shop: Address
) -> None:
    done = holdfast("source", "setup", shop.url, "--role", ROLE, "--run", "--json")
    assert (done.code, done.value["ran"], done.value["role"]) == (0, True, ROLE)
    assert [each["database"] for each in done.value["changes"]] == [shop.database] * 3
    assert done.value["changes"][1]["sql"] == [f'GRANT pg_read_all_data TO "{ROLE}";']
    again = holdfast("source", "setup", shop.url, "--role", ROLE, "--run", "--json").value
    assert (again["ran"], again["changes"], again["script"]) == (False, [], "")
    shown = holdfast("source", "remove", shop.url, "--role", ROLE, "--run")
    assert shown.out == f'{shop.database}: DROP ROLE "{ROLE}";\n'
    shown = holdfast("source", "remove", shop.url, "--role", ROLE, "--run")
    assert (shown.code, shown.out) == (0, "-- nothing to do\n")
    assert f"setup has given {ROLE} nothing in {shop.database}" in shown.err


def test_the_user_of_the_address_is_meant_where_no_role_is_named(holdfast: RunCommand, shop: Address) -> None:
    done = holdfast("source", "setup", shop.url)
    assert done.out == "-- nothing to do\n"
    assert "postgres is a superuser and needs nothing" in done.err


@pytest.fixture
def stream(store: ObjectStore, shop: Address) -> Iterator[str]:
    """The name of the stream of the shop, as a source called by its database's name; it is gone afterwards."""
    name = stream_name(Archive.open(store).identity.id, shop.database)
    yield name
    with connect(shop) as session:
        drop_stream(session, name)


def whats(done: Finished) -> list[str]:
    return [each["what"] for each in done.value["warnings"]]


def test_a_look_at_changes_tells_of_the_stream_of_an_archive(
    holdfast: RunCommand, shop: Address, store: ObjectStore, stream: str
) -> None:
    with connect(shop) as session:
        session.execute("create table hr.keyed (id int primary key)")
        keyed = [each for each in read_tables(session) if each.name == "keyed"]
    state = open_stream(shop, stream, keyed)
    done = holdfast("source", "check", shop.url, "--changes", "--archive", store.url, "--json")
    found = done.value["facts"]["databases"][shop.database]["changes"]["stream"]
    assert (found["slot"], found["position"], found["followed"], found["lost"]) == (stream, state.position, 1, "")
    shown = holdfast("source", "check", shop.url, "--changes", "--archive", store.url).out
    assert re.search(rf"{shop.database}: .*; slot {stream} keeps \d\S* k?M?B of the server's log", shown)
    with connect(shop) as session:
        session.execute(f"drop publication {stream}".encode())
    done = holdfast("source", "check", shop.url, "--changes", "--archive", store.url, "--json")
    assert f"publication {stream} is gone" in whats(done)
    with connect(shop) as session:
        session.execute(f"create publication {stream} for all tables".encode())
    done = holdfast("source", "check", shop.url, "--changes", "--archive", store.url)
    assert f"warn publication {stream} is FOR ALL TABLES" in done.out


def test_a_stream_is_set_up_by_name_of_the_archive_and_removed_with_its_slot(
    holdfast: RunCommand, shop: Address, store: ObjectStore, stream: str
) -> None:
    setup = ("source", "setup", shop.url, "--role", ROLE, "--changes", "--run", "--json")
    assert "--changes needs the archive that the changes go to: --archive URL" in holdfast(*setup).err
    assert holdfast("source", "setup", shop.url, "--identity-full", "*").code == 2
    definitions = holdfast("source", "setup", shop.url, "--definitions")
    assert "--definitions is for incremental backups: add --changes" in definitions.err
    gone = holdfast(*setup, "--archive", store.url, "--new-tables")
    assert (gone.code, "--new-tables was removed" in gone.err, "back up right after" in gone.err) == (2, True, True)
    done = holdfast(*setup, "--archive", store.url, "--identity-full", "hr.*")
    assert (done.code, done.value["ran"]) == (0, True)
    said = [statement for change in done.value["changes"] for statement in change["sql"]]
    assert f'ALTER ROLE "{ROLE}" REPLICATION;' in said
    assert "--definitions" in " ".join(done.value["notes"])
    assert 'ALTER TABLE ONLY "hr"."staff" REPLICA IDENTITY FULL;' in said
    assert any(each.startswith(f'CREATE PUBLICATION "{stream}" FOR TABLE ONLY "hr"."staff" WITH') for each in said)
    with connect(shop) as session:
        tables = read_tables(session)
    assert len(open_stream(shop, stream, tables).followed) == 1
    again = holdfast(*setup, "--archive", store.url, "--identity-full", "hr.*")
    assert again.value["changes"] == []
    done = holdfast("source", "remove", shop.url, "--role", ROLE, "--run")
    assert done.code == 0
    with connect(shop) as session:
        assert session.execute("select from pg_replication_slots where slot_name = %s", (stream,)).fetchone() is None
        assert session.execute("select from pg_publication").fetchone() is None
        assert session.execute("select relreplident from pg_class where relname = 'staff'").fetchone() == ("d",)


def test_a_stream_of_another_archive_is_named_and_left(
    holdfast: RunCommand, shop: Address, store: ObjectStore, stream: str
) -> None:
    open_stream(shop, stream, ())
    done = holdfast("source", "remove", shop.url, "--role", ROLE, "--run")
    assert (done.code, done.out) == (0, "-- nothing to do\n")
    assert f"{shop.database} has a stream of another archive, {stream}: name it with --archive" in done.err
    done = holdfast("source", "remove", shop.url, "--role", ROLE, "--run", "--archive", store.url)
    assert "pg_drop_replication_slot" in done.out
    assert "stream" not in done.err


def test_a_source_can_be_removed_where_its_archive_is_gone(holdfast: RunCommand, shop: Address, tmp_path: Path) -> None:
    Path("archives.yaml").write_text(
        f"archives: {{a: {{url: {tmp_path}/gone, sources: {{s: {{url: '{shop.url}'}}}}}}}}"
    )
    done = holdfast("source", "remove", "s", "--role", ROLE)
    assert done.code == 0
    assert "so its stream is dropped only where setup made it" in done.err


def test_the_stream_that_a_source_has_left_at_its_old_address_is_removed(
    holdfast: RunCommand, shop: Address, store: ObjectStore, new_database: Callable[..., Address]
) -> None:
    left = stream_name(Archive.open(store).identity.id, "configured")
    open_stream(shop, left, ())
    sources = {"configured": {"url": new_database().url}}
    Path("archives.yaml").write_text(json.dumps({"archives": {"a": {"url": store.url, "sources": sources}}}))
    done = holdfast("source", "remove", shop.url, "--role", ROLE, "--run", "--archive", "a")
    assert done.code == 0
    assert left in done.out
    with connect(shop) as session:
        assert session.execute("select from pg_replication_slots where slot_name = %s", (left,)).fetchone() is None
