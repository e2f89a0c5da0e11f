"""What a role may not do in a target, and what a plan does without."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from holdfast.common.errors import RefusedError
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.dump.dump_entries import DumpEntry
from holdfast.postgresql.restore.plan.plan import RestorePlan
from holdfast.postgresql.restore.rights.target_rights import (
    has_words,
    owner_statements,
    owners_of,
    settings_of,
    within_rights,
)
from tests.support.databases.planned_shop import entry


def plan(*entries: DumpEntry) -> RestorePlan:
    return RestorePlan(tables=(), entries=entries, sequences=(), materialized_views=(), roles=())


@pytest.mark.parametrize(
    ("sql", "owners"),
    [
        ("CREATE TABLE s.a ();\n\nALTER TABLE s.a OWNER TO ann;", [("ALTER TABLE s.a OWNER TO ann;", "ann")]),
        ('ALTER VIEW s.v OWNER TO "My role";', [('ALTER VIEW s.v OWNER TO "My role";', "My role")]),
        ("CREATE FUNCTION s.f() AS $$ ALTER TABLE s.a OWNER TO ann; $$;", []),
        ("COMMENT ON TABLE s.a IS 'ALTER TABLE s.a OWNER TO ann;';", []),
        ("ALTER TABLE s.a ADD owner text;", []),
        ("", []),
    ],
)
def test_owners_are_read_of_statements_and_of_no_text(sql: str, owners: list[tuple[str, str]]) -> None:
    assert list(owner_statements(sql)) == owners
    assert owners_of(plan(entry(1, "TABLE", "a", sql=sql))) == {owner for _, owner in owners}


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        ("CREATE PUBLICATION p FOR ALL TABLES", True),
        ("CREATE PUBLICATION p FOR /* not */ ALL TABLES", True),
        ("CREATE PUBLICATION p FOR TABLE s.all", False),
        ("SELECT 'FOR ALL'", False),
    ],
)
def test_words_stand_one_behind_the_other_whatever_lies_between(sql: str, found: bool) -> None:
    assert has_words(sql, "FOR", "ALL") is found


def test_settings_of_a_routine_stand_on_lines_of_their_own_before_its_text() -> None:
    sql = (
        "CREATE FUNCTION s.f() RETURNS int\n    LANGUAGE sql\n    SET search_path TO 'pg_catalog', 'a b'\n"
        "    SET \"my.set\" TO 'x'\n    AS $$ x SET y $$;\nALTER FUNCTION s.f() SET z TO 1;"
    )
    assert list(settings_of(sql)) == ["SET search_path TO 'pg_catalog', 'a b'", "SET \"my.set\" TO 'x'"]
    assert list(settings_of("CREATE FUNCTION s.f() RETURN 1\n SET x TO 1")) == []


@pytest.fixture
def session(address: Address) -> Iterator[Any]:
    """Of a role that owns its database, and may give things to one other role."""
    with connect(address) as admin:
        for statement in (
            "create role rights_me login password 'p'", "create role rights_group", "grant rights_group to rights_me",
            "create role rights_other", f"alter database {address.database} owner to rights_me",
        ):  # fmt: skip
            admin.execute(statement.encode())
        with connect(address.as_user("rights_me", "p")) as opened:
            yield opened
        admin.execute(f"alter database {address.database} owner to postgres".encode())
        for role in ("rights_me", "rights_group", "rights_other"):
            admin.execute(f"drop owned by {role}; drop role {role}".encode())


OWNED = "CREATE TABLE public.{name} ();\nALTER TABLE public.{name} OWNER TO {owner};"
EVENT = "CREATE EVENT TRIGGER watch ON ddl_command_end EXECUTE FUNCTION public.f();"


def table(number: int, name: str, owner: str) -> DumpEntry:
    return entry(number, "TABLE", name, sql=OWNED.format(name=name, owner=owner))


@pytest.mark.service
def test_owners_that_the_role_is_no_member_of_are_left_out_and_named(session: Any) -> None:
    made = within_rights(
        session, plan(table(1, "a", "rights_me"), table(2, "b", "rights_group"), table(3, "c", "rights_other")),
        strict=False,
    )  # fmt: skip
    assert made.runs == {3: "CREATE TABLE public.c ();\n"}
    [left] = made.not_restored
    assert (left.what, left.reason, left.statement) == (
        "owner of table public.c",
        "rights_me may not give things to rights_other, since it is no member of that role",
        "ALTER TABLE public.c OWNER TO rights_other;",
    )


@pytest.mark.service
def test_what_only_superusers_may_create_is_left_out_with_what_belongs_to_it(session: Any) -> None:
    made = within_rights(
        session,
        plan(
            entry(1, "EVENT TRIGGER", "watch", sql=EVENT),
            entry(2, "COMMENT", "EVENT TRIGGER watch", [1], "COMMENT ON EVENT TRIGGER watch IS 'x';"),
            entry(3, "PUBLICATION", "everything", sql="CREATE PUBLICATION everything FOR ALL TABLES;"),
            entry(4, "PUBLICATION", "some", sql="CREATE PUBLICATION some;"),
        ),
        strict=False,
    )
    told = {each.what: each.reason for each in made.not_restored}
    assert list(told) == [
        "event trigger watch", "comment public.EVENT TRIGGER watch", "publication everything",
    ]  # fmt: skip
    assert "permission denied to create event trigger" in told["event trigger watch"]
    assert told["comment public.EVENT TRIGGER watch"] == "what it belongs to is not restored"
    assert made.runs == {1: "", 2: "", 3: ""}
    assert session.execute("select count(*) from pg_publication").fetchone() == (0,)


@pytest.mark.service
def test_a_setting_that_the_role_may_not_make_leaves_the_function_without_it(session: Any) -> None:
    sql = (
        "CREATE FUNCTION public.f() RETURNS int\n    LANGUAGE sql\n    SET search_path TO ''\n"
        "    SET session_replication_role TO 'replica'\n    AS $$ select 1 $$;\n"
        "ALTER FUNCTION public.f() OWNER TO rights_me;"
    )
    made = within_rights(session, plan(entry(1, "FUNCTION", "f()", sql=sql)), strict=False)
    assert "session_replication_role" not in made.runs[1]
    assert "SET search_path TO ''" in made.runs[1]
    [left] = made.not_restored
    assert left.what == "setting session_replication_role of function public.f()"
    assert left.statement == "ALTER FUNCTION public.f() SET session_replication_role TO 'replica';"


@pytest.mark.service
def test_the_owner_that_a_schema_has_already_is_no_loss(session: Any) -> None:
    owner = session.execute("select pg_get_userbyid(nspowner) from pg_namespace where nspname = 'public'").fetchone()[0]
    sql = f"CREATE SCHEMA public;\nALTER SCHEMA public OWNER TO {owner};"
    made = within_rights(session, plan(entry(1, "SCHEMA", "public", sql=sql)), strict=False)
    assert (made.not_restored, made.runs) == ((), {1: "CREATE SCHEMA public;\n"})
    made = within_rights(
        session, plan(entry(1, "SCHEMA", "public", sql=sql.replace(owner, "rights_other"))), strict=False
    )
    assert [each.what for each in made.not_restored] == ["owner of schema public"]


@pytest.mark.service
def test_a_strict_restore_is_refused_with_all_of_it(session: Any) -> None:
    wanted = plan(table(1, "c", "rights_other"), entry(2, "EVENT TRIGGER", "watch", sql=EVENT))
    with pytest.raises(RefusedError) as caught:
        within_rights(session, wanted, strict=True)
    assert str(caught.value) == (
        "rights_me may not create all of it: owner of table public.c, event trigger watch. Restore as a superuser, or "
        "without --strict"
    )
    allowed = plan(table(1, "a", "rights_me"))
    assert within_rights(session, allowed, strict=True) == allowed


@pytest.mark.service
def test_a_superuser_may_do_all(address: Address) -> None:
    wanted = plan(table(1, "c", "nobody"), entry(2, "EVENT TRIGGER", "watch", sql=EVENT))
    with connect(address) as session:
        assert within_rights(session, wanted, strict=True) is wanted
