from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.reading_role import reading_address, reads_with_replication
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.snapshot.snapshot import hold_snapshot, open_snapshot

pytestmark = pytest.mark.service

ROLES = ("apart", "apart_reader")


@pytest.fixture
def administrator(address: Address) -> Iterator[psycopg.Connection[Any]]:
    with connect(address) as session:
        yield session
        for role in ROLES:
            session.execute(f"drop role if exists {role}".encode())


def apart(administrator: psycopg.Connection[Any], address: Address, *attributes: str) -> Address:
    """Make the roles with these attributes, and return the address of the first."""
    for role, more in zip(ROLES, attributes, strict=False):
        administrator.execute(f"create role {role} {more} password 'same' in role pg_read_all_data".encode())
    return address.as_user("apart", "same")


def user(address: Address) -> str:
    with connect(address) as session:
        return session.info.user


def test_rows_are_read_by_the_role_without_replication(
    administrator: psycopg.Connection[Any], address: Address
) -> None:
    administrator.execute("create table public.t (id int)")
    backup = apart(administrator, address, "login replication", "login")
    assert user(reading_address(backup)) == "apart_reader"
    assert not reads_with_replication(backup)
    with hold_snapshot(backup) as held:
        assert held.snapshot.exact
        assert held.session.info.user == "apart_reader"
        with open_snapshot(reading_address(backup), held.snapshot) as seen:
            assert [table.name for table in seen.catalog.tables] == ["t"]


@pytest.mark.parametrize("other", [None, "nologin", "login replication", "login superuser"])
def test_without_such_a_role_a_backup_goes_on_as_before_and_says_what_to_do(
    administrator: psycopg.Connection[Any], address: Address, other: str | None
) -> None:
    backup = apart(administrator, address, "login replication", *([other] if other is not None else []))
    assert reading_address(backup) == backup
    assert "'holdfast source setup … --role apart --replication' makes apart_reader" in reads_with_replication(backup)


@pytest.mark.parametrize("attribute", ["login", "login superuser"])
def test_a_role_without_the_right_and_a_superuser_read_for_themselves(
    administrator: psycopg.Connection[Any], address: Address, attribute: str
) -> None:
    backup = apart(administrator, address, attribute, "login")
    assert reading_address(backup) == backup
    assert reads_with_replication(backup) == ""


def test_a_reader_that_cannot_log_in_stops_no_backup_and_is_named(
    administrator: psycopg.Connection[Any], address: Address
) -> None:
    backup = apart(administrator, address, "login replication", "login")
    administrator.execute("alter role apart_reader password 'another'")
    assert reading_address(backup) == backup
    assert "others: give apart_reader, which is there to read them, the same password" in reads_with_replication(backup)
