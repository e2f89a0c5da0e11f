"""Everything belongs to one role: what is replaced in a dump's statements, and what is left out."""

from __future__ import annotations

import pytest

from holdfast.postgresql.dump.dump_entries import DumpEntry
from holdfast.postgresql.restore.plan.plan import RestorePlan
from holdfast.postgresql.restore.rights.owner_choice import with_owner
from tests.support.databases.planned_shop import entry

TABLE = "CREATE TABLE s.shop (shop text);\nALTER TABLE s.shop OWNER TO shop;"


def changed(*entries: DumpEntry, is_creator: bool = False, roles: tuple[str, ...] = ("shop", "clerk")) -> RestorePlan:
    plan = RestorePlan(tables=(), entries=entries, sequences=(), materialized_views=(), roles=roles)
    return with_owner(plan, "New", ["New"], is_creator=is_creator)


def acl(sql: str, kind: str = "ACL") -> DumpEntry:
    return entry(2, kind, "TABLE shop", needs=(1,), sql=sql)


def test_owners_are_replaced_where_they_own() -> None:
    made = changed(entry(1, "TABLE", "shop", sql=TABLE))
    assert made.entries[0].sql == 'CREATE TABLE s.shop (shop text);\nALTER TABLE s.shop OWNER TO "New";'
    assert (made.roles, made.not_restored) == (("New",), ())
    made = changed(entry(1, "TABLE", "shop", sql=TABLE), is_creator=True)
    assert made.entries[0].sql.strip() == "CREATE TABLE s.shop (shop text);"


def test_what_postgresqls_own_roles_have_stays_theirs() -> None:
    schema = entry(1, "SCHEMA", "public", sql="ALTER SCHEMA public OWNER TO pg_database_owner;")
    assert changed(schema).entries == (schema,)


@pytest.mark.parametrize(
    ("kind", "sql", "expected"),
    [
        ("ACL", "REVOKE ALL ON TABLE s.shop FROM shop;", 'REVOKE ALL ON TABLE s.shop FROM "New";'),
        ("ACL", "GRANT SELECT(shop) ON TABLE s.shop TO PUBLIC;", "GRANT SELECT(shop) ON TABLE s.shop TO PUBLIC;"),
        (
            "DEFAULT ACL",
            "ALTER DEFAULT PRIVILEGES FOR ROLE shop IN SCHEMA shop GRANT SELECT ON TABLES TO PUBLIC;",
            'ALTER DEFAULT PRIVILEGES FOR ROLE "New" IN SCHEMA shop GRANT SELECT ON TABLES TO PUBLIC;',
        ),
    ],
)
def test_an_owners_own_privileges_become_those_of_the_new_one(kind: str, sql: str, expected: str) -> None:
    made = changed(entry(1, "TABLE", "shop", sql=TABLE), acl(sql, kind))
    assert made.entries[1].sql == expected


def test_privileges_of_roles_that_are_not_there_are_left_out_one_by_one() -> None:
    sql = "GRANT SELECT ON TABLE s.shop TO clerk;\nGRANT SELECT ON TABLE s.shop TO PUBLIC;"
    made = changed(entry(1, "TABLE", "shop", sql=TABLE), acl(sql))
    assert made.entries[1].sql == "GRANT SELECT ON TABLE s.shop TO PUBLIC;"
    assert [each.reason for each in made.not_restored] == ["the target has no role clerk"]
    assert (
        changed(entry(1, "TABLE", "shop", sql=TABLE), acl("GRANT SELECT ON TABLE s.shop TO clerk;")).entries[1:] == ()
    )


def test_roles_of_policies_have_to_be_there() -> None:
    policy = entry(
        2, "POLICY", "p", needs=(1,), sql="CREATE POLICY p ON s.shop FOR SELECT TO clerk, other USING (shop);"
    )
    made = changed(entry(1, "TABLE", "shop", sql=TABLE), policy, roles=("shop", "clerk", "other"))
    assert made.roles == ("New", "clerk", "other")
