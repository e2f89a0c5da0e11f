"""TLS of a database's connections: what psycopg, the Arrow driver and pg_dump really use, and what is amiss.

`psql` is never run, and `pg_restore` reads files alone: it connects to no server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.common.errors import HoldfastError
from holdfast.common.postgresql_tls import REMEDY
from holdfast.postgresql.connection.arrow_session import ArrowSession
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.dump.programs import find_program, has_tls, version_of, why_no_connection
from holdfast.postgresql.setup.readiness import Readiness
from holdfast.postgresql.snapshot.obstacles import Obstacle

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from holdfast.postgresql.connection.address import Address

_VERSION = "select version from pg_catalog.pg_stat_ssl where pid = pg_catalog.pg_backend_pid()"


def check_tls(address: Address, major: int) -> Readiness:
    """Check what TLS each client asks for, and gets."""
    asked = address.tls
    facts: dict[str, Any] = {
        "sslmode": asked.mode,
        "sslrootcert": asked.roots or None,
        "over_network": asked.is_remote,
        "asks": asked.describe(),
    }
    if not (asked.is_required or asked.is_remote):
        return Readiness({"tls": facts}, (), ())
    program = find_program("pg_dump", at_least=major, tls=asked)
    with connect(address) as session:
        row = session.execute(_VERSION).fetchone()
    facts["psycopg"] = row[0] if row else None
    facts["arrow_driver"], problems = _by_arrow_driver(address)
    facts["pg_dump"] = has_tls(program) if program else None
    problems += tuple(_by_program(program, address)) if program else ()
    weak = [Obstacle(asked.weakness(), REMEDY)] if asked.weakness() else []
    return Readiness({"tls": facts}, problems, (*weak, *_left_in_the_clear(facts, program)))


def describe(tls: Mapping[str, Any]) -> str:
    """Return the facts of `check_tls` in words."""
    if "psycopg" not in tls:
        return f"{tls['asks']}, on this machine"
    clients = {"psycopg": tls["psycopg"], "Arrow driver": tls["arrow_driver"]}
    used = [f"{client} {version or 'in the clear'}" for client, version in clients.items()]
    programs = {True: "pg_dump with TLS", False: "pg_dump in the clear", None: "no pg_dump"}
    return f"{tls['asks']}: {', '.join([*used, programs[tls['pg_dump']]])}"


def _by_arrow_driver(address: Address) -> tuple[str | None, tuple[Obstacle, ...]]:
    try:
        with ArrowSession(address) as session:
            return session.value(_VERSION), ()
    except HoldfastError as error:
        what, _, do = str(error).rpartition(": ")
        return None, (Obstacle(f"the Arrow driver cannot connect, which reads rows: {what}", do),)


def _by_program(program: Path, address: Address) -> Iterator[Obstacle]:
    if why := why_no_connection(program, address):
        what, _, do = why.rpartition(": ")
        yield Obstacle(f"{program} cannot connect: {what}", do)


def _left_in_the_clear(facts: Mapping[str, Any], program: Path | None) -> Iterator[Obstacle]:
    """Yield a warning where the server speaks TLS, and pg_dump does not."""
    if facts["psycopg"] and program is not None and not facts["pg_dump"]:
        yield Obstacle(
            f"pg_dump {version_of(program)} at {program} was built without TLS: it reads definitions in the clear",
            "install postgresql-client from your distribution or apt.postgresql.org, or set HOLDFAST_PG_BIN to the "
            "folder of one with TLS",
        )
