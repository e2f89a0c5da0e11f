from __future__ import annotations

from collections.abc import Sequence

import pytest

from holdfast.postgresql.connection import copy_out as module
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.copy_out import CopiedRows, copy_out
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.connection.session_errors import BrokenOffError, SessionError

pytestmark = pytest.mark.service


def copied(address: Address, statements: Sequence[str]) -> list[CopiedRows]:
    with connect(address) as session:
        return list(copy_out(session, address, statements))


def query(rows: str) -> str:
    return f"COPY (select i, 'w' || i from pg_catalog.generate_series(1, {rows}) i) TO STDOUT"


def test_the_rows_of_several_statements_come_in_order_and_one_without_rows_gives_none(address: Address) -> None:
    found = copied(address, [query("2"), query("0"), query("1")])
    assert found == [(0, b"1\tw1\n2\tw2\n", [5, 5]), (2, b"1\tw1\n", [5])]


@pytest.mark.parametrize("rows", [0, 1, 255, 256, 257, 1000])
@pytest.mark.parametrize("size", [1, 100, 8 << 20])
def test_binary_rows_come_without_what_begins_and_ends_them(
    address: Address, monkeypatch: pytest.MonkeyPatch, rows: int, size: int
) -> None:
    monkeypatch.setattr(module, "BATCH_BYTES", size)
    statement = f"COPY (select i from pg_catalog.generate_series(1, {rows}) i) TO STDOUT (FORMAT binary)"
    found = copied(address, [statement])
    assert sum(len(sizes) for _, _, sizes in found) == rows
    octets = b"".join(octets for _, octets, _ in found)
    assert octets == b"".join(b"\0\1\0\0\0\4" + row.to_bytes(4) for row in range(1, rows + 1))


def test_a_refused_statement_is_told_without_the_password(address: Address) -> None:
    with pytest.raises(SessionError, match=r'reading from .* failed: relation "public.gone" does not exist') as failed:
        copied(address, ["COPY public.gone TO STDOUT"])
    assert failed.value.sqlstate == "42P01"
    assert address.password
    assert address.password not in str(failed.value)


def test_rows_that_end_in_an_error_may_come_when_it_is_tried_again(address: Address) -> None:
    with pytest.raises(BrokenOffError, match=r"reading from .* broke off: division by zero"):
        copied(address, ["COPY (select 1 / (5000 - i) from pg_catalog.generate_series(1, 9999) i) TO STDOUT"])


def test_a_session_whose_rows_were_not_all_taken_is_closed(address: Address) -> None:
    with connect(address) as session:
        rows = copy_out(session, address, [query("1000"), query("1")])
        next(rows)
        rows.close()  # type: ignore[attr-defined]
        assert session.closed


def test_a_server_that_ends_the_session_is_told_from_a_refusal(address: Address) -> None:
    with connect(address) as session, connect(address) as other:
        other.execute("select pg_catalog.pg_terminate_backend(%s, 10000)", (session.info.backend_pid,))
        with pytest.raises(BrokenOffError, match="broke off"):
            list(copy_out(session, address, [query("1")]))
