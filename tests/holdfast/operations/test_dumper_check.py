"""A backup by a pg_dump with known vulnerabilities is refused before its locks, unless it is told to go on."""

from __future__ import annotations

import pytest

from holdfast.common.errors import RefusedError
from holdfast.operations.dumper_check import check_dumper
from holdfast.operations.requests.backup import BackupRequest
from holdfast.sources.postgresql.connection.address import Address
from holdfast.sources.postgresql.dump import programs
from holdfast.sources.postgresql.dump.client_floors import Release

pytestmark = pytest.mark.service


def test_an_unsafe_pg_dump_is_refused_unless_told(address: Address, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    check_dumper(address, BackupRequest(), said.append)
    monkeypatch.setattr(programs, "version_of", lambda program: Release(18, 4))
    with pytest.raises(RefusedError, match=r"18\.4 is older than 18\.6.*install postgresql-client-18.*--allow-unsafe"):
        check_dumper(address, BackupRequest(), said.append)
    assert said == []
    check_dumper(address, BackupRequest(allow_unsafe_dumper=True), said.append)
    assert said[0].startswith("backing up by an unsafe pg_dump, as told: pg_dump 18.4 ")
