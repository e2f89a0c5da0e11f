"""What is set on a database itself comes back: settings, those of roles in it, privileges, comment, limit."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.connection.sql import ident
from holdfast.postgresql.setup.readiness import check_database
from tests.support.jobs.inline_jobs import RunJob

pytestmark = pytest.mark.service

SET = """
do $$ begin
  execute format('alter database %I set search_path = app, "a b", public', current_database());
  execute format('alter database %I set timezone = %L', current_database(), 'Asia/Kathmandu');
  execute format('alter database %I set app.tenant = %L', current_database(), E'o''neil \\\\');
  execute format('alter database %I set log_statement = none', current_database());
  execute format('alter role set_app in database %I set local_preload_libraries = here', current_database());
  execute format('alter role set_app in database %I set statement_timeout = %L', current_database(), '90s');
  execute format('alter role set_gone in database %I set work_mem = %L', current_database(), '8MB');
  execute format('alter database %I connection limit 50', current_database());
  execute format('revoke all on database %I from public', current_database());
  execute format('grant connect, temporary on database %I to set_app with grant option', current_database());
  execute format('comment on database %I is %L', current_database(), 'the shop''s own');
end $$
"""

SEEN = """
select array(select coalesce(r.rolname, '') || ' ' || m
    from pg_db_role_setting s left join pg_roles r on r.oid = s.setrole, unnest(s.setconfig) m
    where s.setdatabase = d.oid order by 1),
  array(select coalesce(r.rolname, '') || ' ' || a.privilege_type || ' ' || a.is_grantable
    from aclexplode(coalesce(d.datacl, acldefault('d', d.datdba))) a left join pg_roles r on r.oid = a.grantee
    where a.grantee <> d.datdba order by 1),
  d.datconnlimit, shobj_description(d.oid, 'pg_database')
from pg_database d where datname = current_database()
"""

HARMLESS = ["TimeZone=Asia/Kathmandu", 'search_path=app, "a b", public', "set_app statement_timeout=90s"]
GRANTED = ["set_app CONNECT true", "set_app TEMPORARY true"]


def seen(address: Address) -> tuple[list[str], list[str], int, str | None]:
    with connect(address) as session:
        row = session.execute(SEEN).fetchone()
    assert row is not None
    return sorted(part.strip() for part in row[0]), row[1], row[2], row[3]


@pytest.fixture
def shop(create_database: Callable[..., Address]) -> Iterator[Address]:
    address = create_database("create table t (id int primary key)", "insert into t values (1)")
    with connect(address) as session:
        session.execute("create role set_app")
        session.execute("create role set_gone")
        session.execute(SET)
    try:
        yield address
    finally:
        with connect(address.at_database("postgres")) as session:
            for name in ("set_app", "set_gone"):
                for (database,) in session.execute(
                    "select datname from pg_database where not datistemplate"
                ).fetchall():
                    session.execute(f"revoke all on database {ident(database)} from {name}".encode())
                session.execute(f"drop role {name}".encode())


def without_role(address: Address) -> None:
    """Let the server lack a role; its settings go with it."""
    with connect(address) as session:
        session.execute("drop role set_gone")


def test_they_come_with_everything_but_what_may_load_code(
    shop: Address, create_database: Callable[..., Address], run_backup: RunJob, run_restore: RunJob
) -> None:
    target = create_database()
    before = seen(target)
    assert run_backup(shop)[0] == 0
    without_role(shop)
    _, plan = run_restore(target, "--dry-run")
    assert plan.result is not None
    assert "connection limit" in plan.result["plan"]["database"]
    assert seen(target) == before
    code, record = run_restore(target)
    with connect(shop.at_database("postgres")) as session:
        session.execute("create role set_gone")
    assert code == 0, record.error
    assert record.result is not None
    left = {each["object"]: (each["reason"], each["statement"]) for each in record.result["not_restored"]}
    assert seen(target) == (HARMLESS, GRANTED, 50, "the shop's own")
    assert left.keys() == {
        "setting app.tenant of the database",
        "setting log_statement of the database",
        "setting local_preload_libraries of role set_app of the database",
        "setting work_mem of role set_gone of the database",
    }
    assert "the target has no role set_gone" in left["setting work_mem of role set_gone of the database"][0]
    reason, statement = left["setting app.tenant of the database"]
    assert ("--trust-source" in reason, statement) == (True, "")  # an application may keep a secret there
    with connect(target) as session:  # what is shown can be run as it is
        session.execute(left["setting log_statement of the database"][1].encode())
    assert "log_statement=none" in seen(target)[0]


def test_a_trusted_archive_brings_all_and_created_roles_have_theirs(
    shop: Address, create_database: Callable[..., Address], run_backup: RunJob, run_restore: RunJob
) -> None:
    target = create_database()
    assert run_backup(shop)[0] == 0
    without_role(shop)
    code, record = run_restore(target, "--trust-source", "--roles", "create")
    assert code == 0, record.error
    assert record.result is not None
    assert record.result["not_restored"] == []
    assert {
        "log_statement=none",
        "set_gone work_mem=8MB",
        "app.tenant=o'neil \\",
        "set_app local_preload_libraries=here",
    } < set(seen(target)[0])
    assert record.result["roles"]["created"] == ["set_gone"]


@pytest.mark.parametrize("options", [("--tables", "public.t"), ("--database-settings", "drop")])
def test_else_they_are_named_with_their_statements(
    shop: Address,
    create_database: Callable[..., Address],
    run_backup: RunJob,
    run_restore: RunJob,
    options: tuple[str, str],
) -> None:
    target = create_database()
    before = seen(target)
    assert run_backup(shop)[0] == 0
    code, record = run_restore(target, *options)
    assert code == 0, record.error
    assert seen(target) == before
    assert record.result is not None
    (left,) = (each for each in record.result["not_restored"] if each["object"].startswith("of the database: "))
    assert "comment, connection limit" in left["object"]
    assert (
        f'ALTER ROLE "set_app" IN DATABASE "{target.database}" SET "statement_timeout" TO \'90s\';' in left["statement"]
    )


def test_a_check_names_what_only_a_trusted_archive_brings(shop: Address) -> None:
    told = [each.what for each in check_database(shop).warnings]
    assert any("app.tenant, local_preload_libraries, log_statement; a restore makes them only" in each for each in told)
