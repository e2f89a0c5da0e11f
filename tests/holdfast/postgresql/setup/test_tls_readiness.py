"""What psycopg, the Arrow driver and pg_dump use of TLS; on a server that has it, in tests/sparkjobs/databases."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.arrow_session import ArrowSession
from holdfast.postgresql.setup import tls_readiness
from holdfast.postgresql.setup.tls_readiness import check_tls, describe

MAJOR = 18


@pytest.mark.service
def test_a_server_on_this_machine_is_not_asked_where_nobody_asks_for_tls(address: Address) -> None:
    found = check_tls(address, MAJOR)
    assert (found.problems, found.warnings) == ((), ())
    assert describe(found.facts["tls"]) == "sslmode prefer, on this machine"


@pytest.mark.service
def test_what_goes_over_a_network_in_the_clear_is_told_of_each_client(address: Address) -> None:
    there = Address.parse(address.url.replace("127.0.0.1", "0.0.0.0"), address.password)  # noqa: S104 - this machine
    found = check_tls(there, MAJOR)
    assert describe(found.facts["tls"]) == (
        "sslmode prefer: psycopg in the clear, Arrow driver in the clear, pg_dump in the clear"
    )
    assert found.problems == ()
    (weak,) = found.warnings
    assert re.search(r"can read and change the data", weak.what)
    assert re.search(r"^add sslmode=verify-full", weak.do)


@pytest.mark.service
def test_a_client_that_cannot_connect_is_a_problem(address: Address, monkeypatch: pytest.MonkeyPatch) -> None:
    there = Address.parse(address.url.replace("127.0.0.1", "0.0.0.0"), address.password)  # noqa: S104 - this machine
    nowhere = Address.parse(re.sub(r":\d+/", ":1/", address.url))
    monkeypatch.setattr(tls_readiness, "ArrowSession", lambda asked: ArrowSession(nowhere))
    monkeypatch.setattr(tls_readiness, "why_no_connection", lambda program, asked: "pg_dump failed: no way: go round")
    arrow, program = check_tls(there, MAJOR).problems
    assert arrow.what.startswith("the Arrow driver cannot connect, which reads rows: reading from ")
    assert (program.what.endswith("cannot connect: pg_dump failed: no way"), program.do) == (True, "go round")


def test_a_pg_dump_without_tls_is_told_where_the_server_speaks_it() -> None:
    facts = {"psycopg": "TLSv1.3", "pg_dump": False}
    (told,) = tls_readiness._left_in_the_clear(facts, Path("/nowhere/pg_dump"))
    assert "/nowhere/pg_dump was built without TLS: it reads definitions in the clear" in told.what
    assert list(tls_readiness._left_in_the_clear({**facts, "pg_dump": True}, Path("/nowhere/pg_dump"))) == []
    assert list(tls_readiness._left_in_the_clear({**facts, "psycopg": None}, Path("/nowhere/pg_dump"))) == []
