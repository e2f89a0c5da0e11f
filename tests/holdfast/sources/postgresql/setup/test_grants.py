"""Rights are given and taken back on a real server, and nothing else is touched."""

from __future__ import annotations

import itertools
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from holdfast.common.errors import HoldfastError, RefusedError, UsageError
from holdfast.sources.postgresql.catalog.catalog_queries import read_catalog, read_tables
from holdfast.sources.postgresql.connection.address import Address
from holdfast.sources.postgresql.connection.server import PostgresServer
from holdfast.sources.postgresql.connection.session import connect
from holdfast.sources.postgresql.logical import ddl_triggers, new_tables
from holdfast.sources.postgresql.logical.stream import drop_stream, open_stream
from holdfast.sources.postgresql.setup import grants
from holdfast.sources.postgresql.setup.backup_role import MARK, BackupRoleRecord, read_role
from holdfast.sources.postgresql.setup.stream_rights import WantedStream, streams_of
from holdfast.sources.postgresql.snapshot.preconditions import obstacles

pytestmark = pytest.mark.service

_numbers = itertools.count(1)

SHOP = """
create schema hr; create table hr.staff (id int); create sequence hr.numbers; create table public.orders (id serial);
create table public.parted (id int) partition by range (id);
"""

Execute = Callable[..., None]


@pytest.fixture
def role(postgres: PostgresServer) -> Iterator[str]:
    """A name that no role has; what has it in the end is dropped, with its rights in every database."""
    name = f"grants_{next(_numbers)}"
    yield name
    home = Address(postgres.url(), postgres.password)
    with connect(home) as session:
        # Where it has rights or owns something; wherever that is done, it takes those of the whole server, too.
        names = session.execute(
            "select distinct coalesce(d.datname, current_database()) from pg_roles r "
            "left join pg_shdepend s on s.refclassid = 'pg_authid'::regclass and s.refobjid = r.oid "
            "left join pg_database d on d.oid = s.dbid where rolname = %s",
            (name,),
        ).fetchall()
    for (database,) in names:
        with connect(home.at_database(database)) as session:
            session.execute(f"drop owned by {name}".encode())
    with connect(home) as session:
        session.execute(f"drop role if exists {name}".encode())


@pytest.fixture
def shop(address: Address) -> Address:
    with connect(address) as session:
        session.execute(SHOP)
    return address


@pytest.fixture
def execute(address: Address) -> Execute:
    """Runs statements in the database as a superuser."""

    def run(*statements: str) -> None:
        with connect(address) as session:
            for statement in statements:
                session.execute(statement.encode())

    return run


def setup(address: Address, role: str, *more: Address, **options: Any) -> grants.Plan:
    plan = grants.plan_setup(address, [each.database for each in (address, *more)], role, **options)
    grants.run(address, plan)
    return plan


def remove(address: Address, role: str, *more: Address, **options: Any) -> grants.Plan:
    plan = grants.plan_remove(address, [each.database for each in (address, *more)], role, **options)
    grants.run(address, plan)
    return plan


def in_the_way(address: Address, role: str) -> list[str]:
    """Return what keeps a role from backing up a database."""
    with connect(address) as session:
        session.execute(f"alter role {role} password 'p'".encode())
    login = Address(address.url.replace("postgres@", f"{role}@"), "p")
    with connect(login) as session:
        return [each.what for each in obstacles(session)]


def rights(address: Address, role: str) -> list[Any]:
    """Return everything that PostgreSQL knows of a role's rights in this database."""
    with connect(address) as session:
        return [
            session.execute(query.encode(), {"role": role}).fetchall()
            for query in (
                "select rolcanlogin, rolbypassrls, rolreplication, shobj_description(oid, 'pg_authid') from pg_roles "
                "where rolname = %(role)s",
                "select roleid::regrole::text from pg_auth_members where member = %(role)s::regrole",
                "select c.oid::regclass::text, a.privilege_type from pg_class c, aclexplode(c.relacl) a "
                "where a.grantee = %(role)s::regrole order by 1, 2",
                "select n.nspname, a.privilege_type from pg_namespace n, aclexplode(n.nspacl) a "
                "where a.grantee = %(role)s::regrole order by 1, 2",
                "select defaclnamespace::regnamespace::text, defaclobjtype "
                "from pg_default_acl d, aclexplode(defaclacl) a where a.grantee = %(role)s::regrole order by 1, 2",
                "select datname from pg_database d, aclexplode(d.datacl) a where a.grantee = %(role)s::regrole",
            )
        ]


def exists(address: Address, role: str) -> bool:
    with connect(address) as session:
        return read_role(session, role).exists


@pytest.mark.parametrize("per_schema", [False, True])
def test_a_new_role_gets_what_a_backup_needs_and_a_second_set_up_changes_nothing(
    shop: Address, role: str, execute: Execute, per_schema: bool
) -> None:
    execute(f"revoke connect on database {shop.database} from public")
    assert setup(shop, role, per_schema=per_schema).parts
    assert in_the_way(shop, role) == []
    with connect(shop) as session:
        made = read_role(session, role)
    assert (made.login, made.superuser, made.bypassrls, made.replication) == (True, False, False, False)
    assert made.reads_all is not per_schema
    assert grants.plan_setup(shop, [shop.database], role, per_schema=per_schema).parts == ()
    remove(shop, role)
    assert not exists(shop, role)


def test_a_role_that_becomes_another_as_it_logs_in_is_refused(shop: Address, role: str, execute: Execute) -> None:
    execute(f"create role {role} login", f"alter role {role} in database {shop.database} set role = postgres")
    with pytest.raises(RefusedError, match=r"becomes postgres as it logs in, .* in database .* reset role, or name"):
        grants.plan_setup(shop, [shop.database], role)
    grants.plan_setup(shop, ["postgres"], role)


def test_what_is_made_later_can_be_read_and_is_taken_back_too(shop: Address, role: str, execute: Execute) -> None:
    setup(shop, role, per_schema=True)
    execute("create table hr.later (id serial)")
    assert in_the_way(shop, role) == []
    # A schema that is new needs another look, which adds just that.
    execute("create schema newer", "create table newer.t (id int)")
    assert in_the_way(shop, role) == [f"{role} may not use the schemas newer, and may not read newer.t"]
    (part,) = setup(shop, role, per_schema=True).parts
    assert [change.why for change in part.changes] == [
        "read schema newer, now and later",
        "what was given, for holdfast source remove",
    ]
    assert in_the_way(shop, role) == []
    remove(shop, role)
    assert not exists(shop, role)


def test_row_level_security_is_passed_only_where_there_is_some(shop: Address, role: str, execute: Execute) -> None:
    execute("alter table hr.staff enable row level security")
    setup(shop, role, replication=True)
    assert in_the_way(shop, role) == []
    with connect(shop) as session:
        made = read_role(session, role)
    assert (made.bypassrls, made.replication) == (True, True)


@pytest.mark.parametrize("options", [{}, {"per_schema": True}, {"replication": True}])
def test_a_role_that_was_there_is_afterwards_just_what_it_was(
    shop: Address, role: str, execute: Execute, options: dict[str, bool]
) -> None:
    execute(
        f"create role {role} nologin",
        f"comment on role {role} is 'the night''s reports'",
        f"grant usage on schema hr to {role}",
        f"grant select, insert on hr.staff to {role}",
        f"alter default privileges in schema public grant select on tables to {role}",
        "alter table public.orders enable row level security",
    )
    before = rights(shop, role)
    setup(shop, role, **options)
    assert in_the_way(shop, role) == []
    execute("create table hr.later ()")
    assert rights(shop, role) != before
    remove(shop, role)
    assert rights(shop, role) == before
    assert remove(shop, role).parts == ()


def test_a_role_that_can_do_all_already_is_left_as_it_is(shop: Address, role: str, execute: Execute) -> None:
    execute(f"create role {role} login in role pg_read_all_data")
    before = rights(shop, role)
    assert setup(shop, role).parts == ()
    assert remove(shop, role).parts == ()
    assert rights(shop, role) == before
    assert setup(shop, "postgres").notes == (
        "postgres is a superuser and needs nothing: name another role with --role",
    )


def test_a_role_keeps_what_its_other_databases_need(
    shop: Address, role: str, new_database: Callable[..., Address]
) -> None:
    other = new_database()
    assert len(setup(shop, role, other).parts) == 2
    assert remove(shop, role).notes == (
        f"{role} keeps what {other.database} needs: setup has made it ready for that, too",
    )
    assert in_the_way(other, role) == []
    remove(other, role)
    assert not exists(shop, role)


def test_a_database_that_was_dropped_keeps_no_role_alive(
    shop: Address, role: str, new_database: Callable[..., Address], execute: Execute
) -> None:
    other = new_database()
    setup(shop, role, other)
    execute(f"drop database {other.database}")
    remove(shop, role)
    assert not exists(shop, role)


def test_a_role_that_owns_something_is_not_dropped_and_what_it_owns_is_named(
    shop: Address, role: str, execute: Execute
) -> None:
    setup(shop, role)
    execute(f"alter table hr.staff owner to {role}")
    with pytest.raises(RefusedError, match=r"owns table hr\.staff, so it is not dropped.*--keep-role"):
        remove(shop, role)
    assert in_the_way(shop, role) == []
    remove(shop, role, keep_role=True)
    assert exists(shop, role)
    assert in_the_way(shop, role) != []


def test_a_role_with_rights_from_others_is_not_dropped_and_nothing_is_changed(
    shop: Address, role: str, execute: Execute
) -> None:
    setup(shop, role)
    execute(f"grant insert on public.orders to {role}")
    before = rights(shop, role)
    with pytest.raises(RefusedError, match=r"privileges for table public.orders.*nothing was changed"):
        remove(shop, role)
    assert rights(shop, role) == before


def test_whoever_may_not_do_it_is_told_and_nothing_is_changed(shop: Address, role: str, execute: Execute) -> None:
    execute(f"create role {role} login password 'p'")
    before = rights(shop, role)
    login = Address(shop.url.replace("postgres@", f"{role}@"), "p")
    with pytest.raises(HoldfastError, match=r"permission denied.*nothing was changed: run it as a superuser"):
        setup(login, role)
    assert rights(shop, role) == before


def test_what_another_gives_at_the_same_time_is_found_before_anything_counts(
    shop: Address, role: str, execute: Execute
) -> None:
    execute(f"create role {role} login noinherit")
    setup(shop, role)
    # As another grantor's, this membership survives the REVOKE.
    execute(
        "create role grants_other superuser",
        "grant pg_read_all_data to grants_other with admin option",
        f"grant pg_read_all_data to {role} granted by grants_other",
    )
    try:
        with pytest.raises(RefusedError, match="still a member of pg_read_all_data, by grants_other; nothing was"):
            remove(shop, role)
        assert in_the_way(shop, role) == []
    finally:
        execute(f"revoke pg_read_all_data from {role} granted by grants_other", "drop role grants_other")


@pytest.mark.parametrize("name", ["public", "none", "pg_backup", "", "x" * 64])
def test_a_name_that_no_role_can_have_is_refused(address: Address, name: str) -> None:
    with pytest.raises(UsageError, match="cannot name a role"):
        grants.plan_setup(address, [address.database], name)


def test_the_script_does_what_running_does_whatever_the_names(
    postgres: PostgresServer, address: Address, tmp_path: Path, execute: Execute
) -> None:
    odd, role = """o'd"d =\\ base""", "b\"äck'up \\role"
    quoted = '"' + odd.replace('"', '""') + '"'
    execute(f"create database {quoted}")
    strange = address.at_database(odd)
    try:
        with connect(strange) as session:
            session.execute('create schema "a\n; drop""x"; create table "a\n; drop""x"."t\'" (id int)')
            session.execute(f"revoke connect on database {quoted} from public".encode())
        plan = grants.plan_setup(strange, [odd, address.database], role, per_schema=True, replication=True)
        run_script(postgres, grants.script(plan), address, tmp_path)
        assert grants.plan_setup(strange, [odd, address.database], role, per_schema=True, replication=True).parts == ()
        with connect(strange) as session:
            assert read_role(session, role).login
        plan = grants.plan_remove(strange, [odd, address.database], role)
        run_script(postgres, grants.script(plan), address, tmp_path)
        assert not exists(address, role)
    finally:
        execute(f"drop database {quoted}")
    with pytest.raises(RefusedError, match="use --run"):
        grants.script(grants.Plan("r", (grants.DatabaseGrants("two\nlines", ()),)))


def run_script(postgres: PostgresServer, script: str, address: Address, folder: Path) -> None:
    assert address.password
    assert address.password not in script
    (file := folder / "script.sql").write_text(script)
    done = subprocess.run(
        [postgres.programs / "psql", "-X", "-q", "-o", os.devnull, "-f", file, address.url],
        env={**address.environment(), "PGCLIENTENCODING": "UTF8"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_comment_that_somebody_changed_is_never_run(shop: Address, role: str, execute: Execute) -> None:
    setup(shop, role, per_schema=True)
    forged = '{"role": ["created; drop table x"], "databases": {"%s": {"schema hr": ["INSERT ON hr.staff"]}}}'
    execute(f"comment on role {role} is '{MARK}{forged % shop.database}'")
    said = grants.script(grants.plan_remove(shop, [shop.database], role))
    assert "drop table" not in said
    assert "INSERT" not in said
    execute(f"comment on role {role} is '{MARK}not json'")
    with pytest.raises(RefusedError, match="no longer tells what setup has given"):
        remove(shop, role)


def test_the_record_survives_its_comment() -> None:
    record = BackupRoleRecord(
        "for the night", ("created",), {"shop": {"schema hr": ["SELECT ON TABLE hr.staff"]}, "crm": {}}
    )
    assert BackupRoleRecord.parse(record.comment()) == record
    assert BackupRoleRecord.parse("for the night").comment() == "for the night"
    assert BackupRoleRecord("words", (), {}).comment() == "words"
    assert BackupRoleRecord(None, (), {}).comment() is None


def test_the_membership_works_for_a_role_that_inherits_nothing_else(shop: Address, role: str, execute: Execute) -> None:
    execute(f"create role {role} login noinherit")
    setup(shop, role)
    assert in_the_way(shop, role) == []


def test_a_connection_that_breaks_in_the_middle_says_what_was_done(
    shop: Address, role: str, new_database: Callable[..., Address], monkeypatch: pytest.MonkeyPatch
) -> None:
    other = new_database()
    plan = grants.plan_setup(shop, [shop.database, other.database], role)

    def connect_once(address: Address) -> psycopg.Connection[tuple[Any, ...]]:
        if address.database == other.database:
            raise HoldfastError("gone")
        return connect(address)

    monkeypatch.setattr(grants, "connect", connect_once)
    with pytest.raises(HoldfastError, match=f"in {other.database}: gone; done before: {shop.database}$"):
        grants.run(shop, plan)


def test_large_objects_can_be_read_where_there_are_some(shop: Address, role: str, execute: Execute) -> None:
    setup(shop, role, per_schema=True)
    execute("select lo_from_bytea(0, 'abc')")
    assert in_the_way(shop, role) == [f"{role} may not read pg_catalog.pg_largeobject"]
    (part,) = setup(shop, role, per_schema=True).parts
    assert [change.why for change in part.changes] == [
        "read all large objects, now and later",
        "what was given, for holdfast source remove",
    ]
    assert in_the_way(shop, role) == []
    with connect(Address(shop.url.replace("postgres@", f"{role}@"), "p")) as session:
        assert session.execute("select count(*) from pg_largeobject").fetchone() == (1,)
    remove(shop, role)
    assert not exists(shop, role)


STREAM = "holdfast_00000000000000aa"


def stream_left(address: Address) -> list[str]:
    with connect(address) as session:
        return list(streams_of(session))


@pytest.fixture
def keyed(shop: Address, execute: Execute) -> Iterator[Address]:
    """The shop with a table that has a key, one whose identity is nothing, and one with an index that it could use."""
    execute(
        "create table hr.keyed (id int primary key)",
        "create table hr.none (id int primary key); alter table hr.none replica identity nothing",
        "create table hr.by_index (id int not null unique); alter table hr.by_index replica identity using index "
        "by_index_id_key",
    )
    yield shop
    with connect(shop) as session:
        drop_stream(session, STREAM)


def identities(address: Address) -> dict[str, str]:
    with connect(address) as session:
        rows = session.execute("select relname, relreplident from pg_class where relnamespace = 'hr'::regnamespace")
        return {name: identity for name, identity in rows if name in ("staff", "keyed", "none", "by_index")}


def test_a_role_that_owns_nothing_can_follow_changes_after_set_up_and_nothing_is_left_after_removal(
    keyed: Address, role: str, execute: Execute
) -> None:
    before = identities(keyed)
    wanted = {keyed.database: WantedStream(STREAM, identity_full=["hr.staff", "hr.none", "hr.keyed"])}
    setup(keyed, role, streams=wanted)
    assert identities(keyed) == {"staff": "f", "keyed": "d", "none": "f", "by_index": "i"}
    assert grants.plan_setup(keyed, [keyed.database], role, streams=wanted).parts == ()
    execute(f"alter role {role} password 'p'")
    login = Address(keyed.url.replace("postgres@", f"{role}@"), "p")
    with connect(login) as session:
        tables = read_catalog(session, read_tables(session), values=False).with_rows()
    state = open_stream(login, STREAM, tables)
    assert len(state.followed) == 4
    assert set(state.not_followed) == {"public.orders"}
    assert stream_left(keyed) == [STREAM]
    execute("alter table hr.none rename to renamed")
    remove(keyed, role)
    execute("alter table hr.renamed rename to none")
    assert (stream_left(keyed), identities(keyed), exists(keyed, role)) == ([], before, False)


def test_the_script_sets_a_stream_up_and_drops_it_with_its_slot(
    postgres: PostgresServer, keyed: Address, role: str, tmp_path: Path
) -> None:
    before = identities(keyed)
    wanted = {keyed.database: WantedStream(STREAM, identity_full=["hr.none"])}
    plan = grants.plan_setup(keyed, [keyed.database], role, streams=wanted)
    run_script(postgres, grants.script(plan), keyed, tmp_path)
    assert grants.plan_setup(keyed, [keyed.database], role, streams=wanted).parts == ()
    open_stream(keyed, STREAM, ())
    run_script(postgres, grants.script(grants.plan_remove(keyed, [keyed.database], role)), keyed, tmp_path)
    assert (stream_left(keyed), identities(keyed), exists(keyed, role)) == ([], before, False)


def test_nobody_gets_another_replica_identity_without_consent(keyed: Address, role: str) -> None:
    before = identities(keyed)
    setup(keyed, role, streams={keyed.database: WantedStream(STREAM)})
    assert identities(keyed) == before
    with pytest.raises(UsageError, match="matches no table"):
        grants.plan_setup(
            keyed, [keyed.database], role, streams={keyed.database: WantedStream(STREAM, identity_full=["x.*"])}
        )


def test_the_log_tells_of_definitions_only_with_consent_and_nothing_of_that_is_left(
    postgres: PostgresServer, keyed: Address, role: str, execute: Execute, tmp_path: Path
) -> None:
    def seen() -> tuple[bool, bool]:
        with connect(keyed) as session:
            return bool(ddl_triggers.told(session)), ddl_triggers.left(session)

    setup(keyed, role, streams={keyed.database: WantedStream(STREAM)})
    assert seen() == (False, False)
    wanted = {keyed.database: WantedStream(STREAM, definitions=True)}
    plan = grants.plan_setup(keyed, [keyed.database], role, streams=wanted)
    run_script(postgres, grants.script(plan), keyed, tmp_path)
    assert seen() == (True, True)
    assert grants.plan_setup(keyed, [keyed.database], role, streams=wanted).parts == ()
    execute("alter event trigger holdfast_dropped disable")
    assert seen() == (False, True)
    setup(keyed, role, streams=wanted)
    assert seen() == (True, True)
    execute("drop event trigger holdfast_dropped")
    remove(keyed, role)
    assert (seen(), stream_left(keyed), exists(keyed, role)) == ((False, False), [], False)


def test_an_identity_by_an_index_that_was_gone_does_not_come_back(keyed: Address, role: str, execute: Execute) -> None:
    execute("alter table hr.by_index drop constraint by_index_id_key")
    setup(keyed, role, streams={keyed.database: WantedStream(STREAM, identity_full=["hr.by_index"])})
    assert identities(keyed)["by_index"] == "f"
    remove(keyed, role)
    assert identities(keyed)["by_index"] == "n"


def test_an_identity_that_somebody_changed_since_stays(keyed: Address, role: str, execute: Execute) -> None:
    setup(keyed, role, streams={keyed.database: WantedStream(STREAM, identity_full=["hr.none"])})
    execute("alter table hr.none replica identity default")
    remove(keyed, role)
    assert identities(keyed)["none"] == "d"


def test_a_superuser_needs_no_rights_but_consent(keyed: Address) -> None:
    wanted = {keyed.database: WantedStream(STREAM, identity_full=["hr.none"])}
    plan = grants.plan_setup(keyed, [keyed.database], "postgres", streams=wanted)
    assert [change.why for part in plan.parts for change in part.changes] == [
        "keep whole old rows of hr.none in the log: it has no usable key",
        "publish the changes of the tables that are backed up",
        "what was given, for holdfast source remove",
    ]
    grants.run(keyed, plan)
    remove(keyed, "postgres")
    assert (stream_left(keyed), identities(keyed)["none"]) == ([], "n")


def test_a_stream_that_no_setup_has_made_goes_where_its_name_is_known(keyed: Address, role: str) -> None:
    with connect(keyed) as session:
        tables = read_catalog(session, read_tables(session), values=False).with_rows()
    open_stream(keyed, STREAM, tables)
    assert remove(keyed, role).parts == ()
    assert stream_left(keyed) == [STREAM]
    plan = grants.plan_remove(keyed, [keyed.database], role, streams={keyed.database: STREAM})
    grants.run(keyed, plan)
    assert stream_left(keyed) == []


def test_a_forged_name_of_a_stream_is_never_run(keyed: Address, role: str, execute: Execute) -> None:
    setup(keyed, role, streams={keyed.database: WantedStream(STREAM)})
    forged = '{"role": [], "databases": {"%s": {"stream x; drop table y": [], "identity of table 1; drop": []}}}'
    execute(f"comment on role {role} is '{MARK}{forged % keyed.database}'")
    assert "drop" not in grants.script(grants.plan_remove(keyed, [keyed.database], role))


def test_new_tables_are_published_only_with_consent_and_nothing_of_that_is_left(
    postgres: PostgresServer, keyed: Address, role: str, execute: Execute, tmp_path: Path
) -> None:
    def seen() -> tuple[bool, bool]:
        with connect(keyed) as session:
            return new_tables.in_force(session), new_tables.left(session)

    setup(keyed, role, streams={keyed.database: WantedStream(STREAM)})
    assert seen() == (False, False)
    wanted = {keyed.database: WantedStream(STREAM, new_tables=True)}
    plan = grants.plan_setup(keyed, [keyed.database], role, streams=wanted)
    run_script(postgres, grants.script(plan), keyed, tmp_path)
    assert seen() == (True, True)
    assert grants.plan_setup(keyed, [keyed.database], role, streams=wanted).parts == ()
    execute("alter event trigger holdfast_publish disable")
    assert seen() == (False, True)
    setup(keyed, role, streams=wanted)
    assert seen() == (True, True)
    remove(keyed, role)
    assert (seen(), stream_left(keyed), exists(keyed, role)) == ((False, False), [], False)
