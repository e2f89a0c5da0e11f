"""A job's database is looked at before its locks: its pg_dump has the TLS it needs, or it is free for a restore."""

from __future__ import annotations

import pytest

from holdfast.common.errors import RefusedError
from holdfast.operations import database_checks
from holdfast.operations.database_checks import check_dumper, check_target_is_free
from holdfast.operations.requests.restore import RestoreRequest
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.dump import programs

pytestmark = pytest.mark.service


def test_a_pg_dump_without_tls_is_refused_where_the_source_asks_for_it(
    address: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "has_tls", lambda program: False)
    monkeypatch.setattr(database_checks, "connect", lambda asked: connect(address))  # its own server has no TLS
    asks = Address.parse(f"{address.url}?sslmode=verify-full", address.password)
    with pytest.raises(RefusedError, match="built without TLS, and sslmode verify-full asks for it: install"):
        check_dumper(asks)


@pytest.mark.parametrize("dry_run", [False, True])
def test_a_target_that_is_not_empty_is_refused_where_it_has_to_be(address: Address, dry_run: bool) -> None:
    check_target_is_free(address, RestoreRequest(dry_run=dry_run))
    with connect(address) as session:
        session.execute("create table public.mine (id int)")
    with pytest.raises(RefusedError, match=r"is not empty: it has public\.mine"):
        check_target_is_free(address, RestoreRequest(dry_run=dry_run))
    check_target_is_free(address, RestoreRequest(dry_run=dry_run, tables=("public.other",)))


def test_a_schema_of_the_name_that_restores_need_is_refused_as_by_the_job(address: Address) -> None:
    with connect(address) as session:
        session.execute("create schema holdfast_restore")
    with pytest.raises(RefusedError, match="that no restore of this release has made"):
        check_target_is_free(address, RestoreRequest())
