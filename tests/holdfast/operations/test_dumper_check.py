"""A backup by a pg_dump with known vulnerabilities is refused before its locks, unless it is told to go on."""

from __future__ import annotations

import pytest

from holdfast.common.errors import RefusedError
from holdfast.operations import dumper_check
from holdfast.operations.dumper_check import check_dumper
from holdfast.operations.requests.backup import BackupRequest
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.dump import programs
from holdfast.postgresql.dump.client_floors import Release

pytestmark = pytest.mark.service


def test_a_pg_dump_without_tls_is_refused_where_the_source_asks_for_it(
    address: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "has_tls", lambda program: False)
    monkeypatch.setattr(dumper_check, "connect", lambda asked: connect(address))  # its own server has no TLS
    asks = Address.parse(f"{address.url}?sslmode=verify-full", address.password)
    said: list[str] = []
    with pytest.raises(RefusedError, match="built without TLS, and sslmode verify-full asks for it: install"):
        check_dumper(asks, BackupRequest(allow_unsafe_dumper=True), said.append)


def test_an_unsafe_pg_dump_is_refused_unless_told(address: Address, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    check_dumper(address, BackupRequest(), said.append)
    monkeypatch.setattr(programs, "version_of", lambda program: Release(18, 4))
    with pytest.raises(RefusedError, match=r"18\.4 is older than 18\.6.*install postgresql-client-18.*--allow-unsafe"):
        check_dumper(address, BackupRequest(), said.append)
    assert said == []
    check_dumper(address, BackupRequest(allow_unsafe_dumper=True), said.append)
    assert said[0].startswith("backing up by an unsafe pg_dump, as told: pg_dump 18.4 ")
