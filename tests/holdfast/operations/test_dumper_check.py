"""A backup is refused before its locks where its pg_dump lacks TLS that the source asks for."""

from __future__ import annotations

import pytest

from holdfast.common.errors import RefusedError
from holdfast.operations import dumper_check
from holdfast.operations.dumper_check import check_dumper
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.dump import programs

pytestmark = pytest.mark.service


def test_a_pg_dump_without_tls_is_refused_where_the_source_asks_for_it(
    address: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "has_tls", lambda program: False)
    monkeypatch.setattr(dumper_check, "connect", lambda asked: connect(address))  # its own server has no TLS
    asks = Address.parse(f"{address.url}?sslmode=verify-full", address.password)
    with pytest.raises(RefusedError, match="built without TLS, and sslmode verify-full asks for it: install"):
        check_dumper(asks)
