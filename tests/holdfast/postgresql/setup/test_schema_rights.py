"""Which rights a role lacks in a schema, and the statements that give them and take them back."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.setup.backup_role import read_role
from holdfast.postgresql.setup.schema_rights import SchemaRights, read_schemas
from tests.support.databases.granting import Execute

pytestmark = pytest.mark.service


def by_name(address: Address, role: str) -> dict[str, SchemaRights]:
    with connect(address) as session:
        return {each.name: each for each in read_schemas(session, read_role(session, role))}


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


def test_what_the_role_owns_itself_needs_no_default_of_its_own(shop: Address, role: str, execute: Execute) -> None:
    execute(f"create role {role}", f"alter table hr.staff owner to {role}", f"alter schema hr owner to {role}")
    assert by_name(shop, role)["hr"].owners == ("postgres",)
    execute(f"alter sequence hr.numbers owner to {role}")
    assert by_name(shop, role)["hr"].owners == ()
