"""Rows that extensions keep for their users come back, as the extension says which are theirs."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.postgresql.catalog import extension_rows
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.server import PostgresServer
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.snapshot.snapshot import hold_snapshot
from tests.support.following.followed import Followed, open_followed
from tests.support.servers.postgres import create_database
from tests.support.servers.versions import running

pytestmark = pytest.mark.service

CONTROL = "default_version = '1.0'\nrelocatable = false\nschema = public\n"

SCRIPT = """
create table kinds (id int primary key, name text);
insert into kinds values (1, 'built in'), (2, 'built in, too');
create table jobs (id int primary key, kind int references kinds, "The Name" text, twice int
  generated always as (id * 2) stored);
insert into jobs values (1, 1, 'a default that users may drop');
create table log (line text);
create sequence job_ids;
create table scratch (id int);
select pg_catalog.pg_extension_config_dump('jobs', '');
select pg_catalog.pg_extension_config_dump('kinds', 'where id >= 100');
select pg_catalog.pg_extension_config_dump('job_ids', '');
"""

USED = (
    "create extension keeper",
    "insert into kinds values (100, E'mine\\twith \\\\ and\\nlines'), (101, null)",
    "delete from jobs",
    "insert into jobs select i, 100 + i % 2, 'job ' || i from generate_series(10, 20) i",
    "select setval('job_ids', 20)",
    "insert into scratch values (1)",
    "create table runs (id int primary key, job int references jobs)",
    "insert into runs select i, i from generate_series(10, 20) i",
)


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A server that finds the extension, in a folder that its user may read."""
    with tempfile.TemporaryDirectory(prefix="holdfast-share-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "extension").mkdir()
        (folder / "extension" / "keeper.control").write_text(CONTROL)
        (folder / "extension" / "keeper--1.0.sql").write_text(SCRIPT)
        with running(PostgresServer(settings={"extension_control_path": f"{folder}:$system"})) as started:
            yield started


@pytest.fixture
def new_database(server: PostgresServer) -> Callable[[], Address]:
    return lambda: create_database(server)


@pytest.fixture
def followed(new_database: Callable[[], Address], tmp_path: Path) -> Iterator[Followed]:
    with open_followed(new_database(), tmp_path / "archive") as opened:
        opened.make(USED)
        yield opened


def kept(address: Address) -> dict[str, Any]:
    with connect(address) as session:
        return {
            name: session.execute(f"select * from public.{name} order by 1".encode()).fetchall()
            for name in ("kinds", "jobs", "runs")
        } | {"job_ids": session.execute("select nextval('public.job_ids')").fetchone()}


def test_rows_and_numbers_of_an_extension_come_back_with_what_refers_to_them(
    followed: Followed, new_database: Callable[[], Address]
) -> None:
    said = followed.back_up("full")
    assert said["not_included"] == [
        "rows of public.log: it belongs to an extension",
        "rows of public.scratch: it belongs to an extension",
    ]
    for there in ((), ("create extension keeper",)):
        target = new_database()
        with connect(target) as session:
            for statement in there:
                session.execute(statement.encode())
        said = followed.restore("latest", target)
        assert (said["not_restored"], said["equal"]) == ([], True)
        found = kept(target)
        assert found == {**kept(followed.address), "job_ids": (21,)}
        with connect(target) as session:
            keys = session.execute("select conname::text from pg_constraint where contype = 'f' order by 1").fetchall()
        assert keys == [("jobs_kind_fkey",), ("runs_job_fkey",)]


@pytest.mark.exhaustive
def test_a_moment_has_those_of_the_backup_before_and_says_where_they_changed(
    followed: Followed, new_database: Callable[[], Address]
) -> None:
    followed.back_up()
    before = kept(followed.address)
    quiet = followed.run("insert into runs values (1, 10)")
    followed.back_up()
    position = followed.run("insert into runs values (2, 10)")
    followed.run("insert into jobs values (30, 100, 'later')", "insert into kinds values (200, 'later')")
    followed.back_up()
    target = new_database()
    assert followed.restore(f"lsn:{quiet}", target)["not_restored"] == []
    target = new_database()
    said = followed.restore(f"lsn:{position}", target)
    found = kept(target)
    assert (found["jobs"], found["kinds"]) == (before["jobs"], before["kinds"])
    reason = "they are of the backup before this moment, and changed until the next one"
    assert {each["object"]: each["reason"] for each in said["not_restored"]} == {
        "configuration rows of public.jobs": reason,
        "configuration rows of public.kinds": reason,
    }
    target = new_database()
    assert followed.restore("latest", target)["not_restored"] == []
    assert kept(target)["jobs"] == kept(followed.address)["jobs"]


def test_what_a_role_may_not_read_or_is_too_much_is_named_and_stops_no_backup(
    followed: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    followed.make(
        (
            "drop role if exists reader",
            "create role reader login password 'reader'",
            "grant select on runs, jobs to reader",
        )
    )
    monkeypatch.setattr(extension_rows, "MOST_BYTES", 10)
    url = followed.address.url.replace("postgres@", "reader@")
    with hold_snapshot(Address(url, "reader")) as held:
        found = [(each.label, each.failed) for each in held.catalog.configuration]
        named = held.not_included
    assert found == [("configuration rows of public.jobs", "they are more than 0 MiB")]
    unreadable = "which keeps rows of its users there, and this role may not read it: grant it SELECT"
    assert named == (
        "rows of public.kinds: it belongs to an extension, " + unreadable,
        "rows of public.log: it belongs to an extension",
        "rows of public.scratch: it belongs to an extension",
        "value of public.job_ids: it belongs to an extension, " + unreadable,
        "configuration rows of public.jobs: they are more than 0 MiB",
    )
