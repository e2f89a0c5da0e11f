"""Backups and restores by roles like those of RDS, Cloud SQL and Azure: all rows come back, the rest is named."""

from __future__ import annotations

import ast
import itertools
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from holdfast.archive import Archive
from holdfast.archive.archive import IDENTITY_KEY
from holdfast.common.errors import HoldfastError
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.server import PostgresServer
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.logical.stream import stream_name
from holdfast.postgresql.setup import grants
from holdfast.postgresql.setup.stream_rights import WantedStream
from holdfast.storage import ObjectStore
from tests.sparkjobs.restore.test_rows_first import rows
from tests.support.databases.clouds import CLOUDS, READS_LARGE_OBJECTS
from tests.support.jobs.inline_jobs import RunJob, failed
from tests.support.servers.versions import programs_of, running

pytestmark = pytest.mark.service

_numbers = itertools.count(1)

Contents = dict[str, list[Any]]
"""Rows by the name of their table."""

SHOP = (
    "create schema shop authorization app",
    "create table shop.orders (id int generated always as identity primary key, who text not null, m text)",
    "create table shop.lines (id int primary key, ordered int references shop.orders)",
    "create table shop.hidden (id int primary key, who text)",
    "alter table shop.hidden enable row level security",
    "alter table shop.hidden force row level security",
    "create policy own on shop.hidden using (who = current_user)",
    "create function shop.key_of(v text) returns text language plpgsql immutable as 'begin return left(v, 1); end'",
    "create table shop.by_key (who text) partition by list (shop.key_of(who))",
    "create table shop.by_key_a partition of shop.by_key for values in ('a')",
    "insert into shop.orders (who, m) values ('a', 'sad'), ('b', 'glad')",
    "insert into shop.lines values (1, 1), (2, 2)",
    "insert into shop.hidden values (1, 'somebody')",
    "insert into shop.by_key values ('a')",
    "create function shop.quiet() returns int language sql "
    "set work_mem to '8MB' set session_replication_role to 'replica' as 'select 1'",
    "create function shop.log_ddl() returns event_trigger language plpgsql as 'begin end'",
    "do $$ declare each regclass; begin for each in select oid from pg_class where relkind in ('r', 'p') and "
    "relnamespace = 'shop'::regnamespace loop execute format('alter table %s owner to app', each); end loop; end $$",
    "alter function shop.key_of(text) owner to app",
    "alter function shop.quiet() owner to app",
    "alter function shop.log_ddl() owner to app",
    "create table shop.others (id int primary key)",
    "insert into shop.others values (7)",
    "alter table shop.others owner to outsider",
    "grant select on shop.others to app",
    "grant all on schema shop to outsider",
    "create event trigger watch on ddl_command_end execute function shop.log_ddl()",
    "create publication every for all tables",
)
EXTENSION = ("create extension pg_trgm schema public", "comment on extension pg_trgm is 'ours'")
"""Not all servers of the tests have it."""

TABLES = ("orders", "lines", "hidden", "by_key_a", "others")
LARGE_OBJECTS = (
    "select lo_from_bytea(4711, 'large')",
    "alter large object 4711 owner to app",
    "select lo_from_bytea(4712, 'other')",
    "alter large object 4712 owner to outsider",
    "grant select on large object 4712 to app",
    "comment on large object 4712 is 'not mine'",
)
OWN = (
    "create schema shop authorization app",
    "set role app",
    *SHOP[1:3],
    "insert into shop.orders (who) values ('a')",
    "insert into shop.lines values (2, 1)",
    "reset role",
)
CHANGES = ("insert into shop.orders (who) values ('c')", "delete from shop.lines where id = 2")

LARGE = {"2 large objects"}
SUPERUSERS = {"setting session_replication_role of function shop.quiet()", "publication every", "event trigger watch"}
"""What is left out: with tables, and for who is no superuser."""


def choices(*majors: int, names: Iterable[str] = CLOUDS, often: bool = True) -> list[Any]:
    """Return clouds and versions.

    :param often: tested each time.
    """
    marks = () if often else pytest.mark.exhaustive
    return [pytest.param((name, major), id=f"{name}-{major}", marks=marks) for major in majors for name in names]


@dataclass(frozen=True)
class Cloud:
    """A server with the administrators of clouds, and one of them."""

    name: str
    major: int
    server: PostgresServer

    def make(self, *statements: str) -> Address:
        """Make a database of the administrator's, run statements in it as a superuser; return its address as that."""
        made = f"{self.name}_{next(_numbers)}"
        with connect(self.address("postgres")) as session:
            session.execute(f"create database {made} owner {self.name}".encode())
        with connect(self.address(made)) as session:
            for statement in (*filter(None, (READS_LARGE_OBJECTS.get(self.name),)), *statements):
                session.execute(statement.encode())
        return self.address(made)

    def extension(self, *given: str) -> tuple[str, ...]:
        """Return what has to do with an extension, where the server has it."""
        query = "select from pg_available_extensions where name = 'pg_trgm'"
        return given if rows(self.address("postgres"), query) else ()

    @contextmanager
    def without_owners(self) -> Iterator[tuple[str, str]]:
        """Have no owners meanwhile; yields what those that are made in that time are called afterwards."""
        names = f"app_of_{self.name}", f"outsider_of_{self.name}"
        with connect(self.address("postgres")) as session:
            session.execute("alter role app rename to app_before; alter role outsider rename to outsider_before")
            yield names
            for name, new in zip(("app", "outsider"), names, strict=True):
                session.execute(
                    f"alter role {name} rename to {new}; alter role {name}_before rename to {name}".encode()
                )

    def address(self, database: str) -> Address:
        return Address(self.server.url(database), self.server.password)

    def as_admin(self, address: Address) -> Address:
        return address.as_user(self.name, self.name)


@pytest.fixture(scope="module")
def server_of_clouds() -> Iterator[Callable[[int], PostgresServer]]:
    """Gives a server of a version whose changes can be followed, with the administrators of all clouds."""
    with ExitStack() as stack:

        @cache
        def give(major: int) -> PostgresServer:
            made = PostgresServer(programs=None if major == 18 else programs_of(major), settings={"jit": "off"})
            started = stack.enter_context(running(made))
            with connect(Address(started.url(), started.password)) as session:
                for statement in ("create role outsider", "create role app", *chain(*CLOUDS.values())):
                    session.execute(statement.encode())
                for name in CLOUDS:
                    session.execute(f"alter role {name} password '{name}'; grant app to {name}".encode())
            return started

        yield give


@pytest.fixture
def cloud(server_of_clouds: Callable[[int], PostgresServer], request: pytest.FixtureRequest) -> Cloud:
    name, major = request.param
    return Cloud(name, major, server_of_clouds(major))


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Path]:
    """Gives the folder that the backups of a version are kept in."""
    return cache(lambda major: tmp_path_factory.mktemp(f"backups-{major}"))


@pytest.fixture
def source(cloud: Cloud, templates: Callable[[int], Path], store: ObjectStore, run_backup: RunJob) -> Contents:
    """What is in the archive: a full backup and one of changes, which the first test of a version makes."""
    archive, template = Path(store.url), templates(cloud.major)
    if not any(template.iterdir()):
        made = cloud.make(*SHOP, *cloud.extension(*EXTENSION), *LARGE_OBJECTS)
        assert run_backup(made, "--kind", "changes")[0] == 0
        change(made)
        assert run_backup(made)[0] == 0
        for name in ("commits", "data"):
            shutil.copytree(archive / name, template / name)
        shutil.copy(archive / IDENTITY_KEY, template)  # commits name their archive
        (template / "contents").write_text(repr(contents(made)))
    shutil.copytree(template, archive, dirs_exist_ok=True, ignore=shutil.ignore_patterns("contents"))
    found: Contents = ast.literal_eval((template / "contents").read_text())
    return found


def contents(address: Address, schema: str = "shop") -> Contents:
    return {name: rows(address, f"select * from {schema}.{name} order by 1") for name in TABLES}


def change(source: Address) -> None:
    with connect(source) as session:
        for statement in CHANGES:
            session.execute(statement.encode())


def left_out(ran: Any) -> set[str]:
    _, record = ran
    assert record.result is not None, record.error
    return {each["object"] for each in record.result["not_restored"]}


def set_up(admin: Address, role: str, **options: Any) -> None:
    grants.run(admin, grants.plan_setup(admin, [admin.database], role, **options))


def let_read_large_objects(cloud: Cloud, run_restore: RunJob) -> None:
    """Let the administrator read them, which a restore asks for: before 16 it may see to it itself."""
    code, refused = failed(run_restore(cloud.as_admin(cloud.make()), "--dry-run"))
    assert (code, f"grant pg_read_all_data to {cloud.name}" in refused) == (5, True)
    postgres = cloud.address("postgres")
    with connect(cloud.as_admin(postgres) if cloud.major < 16 else postgres) as session:
        session.execute(f"grant pg_read_all_data to {cloud.name}".encode())


@pytest.mark.representatives("rds-18", "azure-18")
@pytest.mark.parametrize(
    "cloud",
    [
        *choices(14, names=["rds"]),
        *choices(18),
        *choices(14, names=["cloudsql", "azure"], often=False),
        *choices(15, 16, 17, often=False),
    ],
    indirect=True,
)
def test_an_administrator_sets_up_a_source_as_far_as_it_may(
    run_backup: RunJob, store: ObjectStore, cloud: Cloud
) -> None:
    source = cloud.make(*OWN)
    admin, role = cloud.as_admin(source), f"{cloud.name}_backup"
    streams = {source.database: WantedStream(stream_name(Archive.open(store).identity.id, "shop"))}
    # pg_read_all_data may be granted by who may make roles, before 16; from then on REPLICATION by who has it.
    is_newer = cloud.major >= 16
    follows = is_newer and cloud.name != "rds"

    if is_newer:
        with pytest.raises(HoldfastError, match=r"pg_read_all_data.*run it as a superuser, or use --per-schema"):
            set_up(admin, role)
    if not follows:
        with pytest.raises(HoldfastError, match=r"(?i)replication.*nothing was changed"):
            set_up(admin, role, per_schema=is_newer, streams=streams)
    set_up(admin, role, per_schema=is_newer, streams=streams if follows else {})
    with connect(admin) as session:
        session.execute(f"alter role {role} password '{role}'".encode())

    for kind in ("changes", "auto") if follows else ("full",):
        code, record = run_backup(source.as_user(role, role), "--kind", kind)
        assert code == 0, record.error
        change(source)


@pytest.mark.representatives("azure-18")
@pytest.mark.parametrize("cloud", [*choices(14, 18), *choices(15, 16, 17, often=False)], indirect=True)
def test_an_administrator_gets_all_rows_back_and_is_told_what_it_may_not(
    run_restore: RunJob, cloud: Cloud, source: Contents
) -> None:
    beside, target = (cloud.make(*cloud.extension(EXTENSION[0])) for _ in range(2))
    chosen = ("--tables", "shop.*", "--map", "shop=other")
    assert left_out(run_restore(cloud.as_admin(beside), *chosen)) == {"owner of table shop.others", *LARGE}
    assert contents(beside, "other") == source
    if cloud.name not in READS_LARGE_OBJECTS:
        let_read_large_objects(cloud, run_restore)

    with cloud.without_owners() as names:
        left = left_out(run_restore(cloud.as_admin(target), "--roles", "create"))

    assert left == {*SUPERUSERS, *cloud.extension("comment EXTENSION pg_trgm")}
    assert contents(target) == source
    owners = "select distinct pg_get_userbyid(relowner)::text from pg_class where relnamespace = 'shop'::regnamespace"
    assert {owner for (owner,) in rows(target, owners)} == set(names)
    owners = "select oid::int, pg_get_userbyid(lomowner)::text, lo_get(oid) from pg_largeobject_metadata order by 1"
    assert rows(target, owners) == [(4711, names[0], b"large"), (4712, names[1], b"other")]
