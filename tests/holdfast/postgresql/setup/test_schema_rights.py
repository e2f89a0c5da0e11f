"""Which rights a role lacks in a schema, and the statements that give them and take them back."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.setup.backup_role import read_role
from holdfast.postgresql.setup.schema_rights import SchemaRights, read_schemas
from tests.support.databases.granting import Execute

DEFAULTS = ("defaults of ann for tables", "defaults of ann for sequences")


def statements(*parts: str) -> tuple[str, ...]:
    return tuple(f"{part};" for part in parts)


def test_what_is_missing_is_granted_and_what_comes_later_for_each_owner() -> None:
    found = SchemaRights("My hr", ("ann", "Bob"), ("usage", "sequences"), (DEFAULTS[0], "defaults of Bob for tables"))
    later = 'ALTER DEFAULT PRIVILEGES FOR ROLE {} IN SCHEMA "My hr" GRANT SELECT ON SEQUENCES TO backup'
    assert found.key == "schema My hr"
    assert found.grants("backup") == statements(
        'GRANT USAGE ON SCHEMA "My hr" TO backup',
        'GRANT SELECT ON ALL SEQUENCES IN SCHEMA "My hr" TO backup',
        later.format('"ann"'),
        later.format('"Bob"'),
    )


def test_who_lacks_nothing_is_granted_nothing() -> None:
    assert SchemaRights("hr", (), (), ()).grants("backup") == ()
    assert SchemaRights("hr", ("ann",), (), DEFAULTS).grants("backup") == ()


def test_all_is_taken_back_but_what_was_there_before() -> None:
    had = ('USAGE ON SCHEMA "hr"', 'SELECT ON TABLE "hr"."staff"', *DEFAULTS)
    found = SchemaRights("hr", ("ann", "Bob"), (), had)
    kept = ['USAGE ON SCHEMA "hr"', "INSERT ON x; drop table y", DEFAULTS[1]]
    assert found.revokes("backup", kept) == statements(
        'ALTER DEFAULT PRIVILEGES FOR ROLE "ann" IN SCHEMA "hr" REVOKE SELECT ON TABLES FROM backup',
        'REVOKE SELECT ON ALL TABLES IN SCHEMA "hr" FROM backup',
        'REVOKE SELECT ON ALL SEQUENCES IN SCHEMA "hr" FROM backup',
        'REVOKE USAGE ON SCHEMA "hr" FROM backup',
        'GRANT USAGE ON SCHEMA "hr" TO backup',
    )


def by_name(address: Address, role: str) -> dict[str, SchemaRights]:
    with connect(address) as session:
        return {each.name: each for each in read_schemas(session, read_role(session, role))}


@pytest.mark.service
def test_rights_are_read_as_the_server_sees_them(shop: Address, role: str, execute: Execute) -> None:
    execute("create extension pg_trgm schema public; create schema empty")
    before: dict[str, Any] = by_name(shop, role)
    assert {name: (each.lacks, each.had) for name, each in before.items()} == {
        "empty": (("usage",), ()),
        "hr": (("usage", "tables", "sequences"), ()),
        "public": (("tables", "sequences"), ()),
    }
    assert before["hr"].owners == ("postgres",)
    execute(f"create role {role} login", f"grant usage on schema hr to {role}", f"grant select on hr.staff to {role}",
            f"alter default privileges in schema hr grant select on sequences to {role}",
            "grant select on all sequences in schema hr to public")  # fmt: skip
    hr = by_name(shop, role)["hr"]
    assert hr.lacks == ()
    assert hr.had == (
        'USAGE ON SCHEMA "hr"', 'SELECT ON TABLE "hr"."staff"', "defaults of postgres for sequences",
    )  # fmt: skip


@pytest.mark.service
def test_what_the_role_owns_itself_needs_no_default_of_its_own(shop: Address, role: str, execute: Execute) -> None:
    execute(f"create role {role}", f"alter table hr.staff owner to {role}", f"alter schema hr owner to {role}")
    assert by_name(shop, role)["hr"].owners == ("postgres",)
    execute(f"alter sequence hr.numbers owner to {role}")
    assert by_name(shop, role)["hr"].owners == ()
