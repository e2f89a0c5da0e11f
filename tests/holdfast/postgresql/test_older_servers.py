"""What depends on a server's version, on the oldest and the last but one that are supported."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.server import PostgresServer
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.setup import grants
from holdfast.postgresql.setup.grants import plan_reader
from holdfast.postgresql.setup.readiness import check_database, check_server
from holdfast.postgresql.snapshot.snapshot import hold_snapshot
from tests.support.servers.versions import programs_of, running

pytestmark = pytest.mark.service


@pytest.fixture(scope="module", params=[14, 17])
def address(request: pytest.FixtureRequest) -> Iterator[Address]:
    """A superuser's of a server with wal_level=logical."""
    with running(PostgresServer(programs=programs_of(request.param))) as server:
        yield Address(server.url(), server.password)


@pytest.mark.parametrize("per_schema", [False, True])
def test_a_role_that_was_set_up_can_hold_an_exact_snapshot_until_its_rights_are_taken_back(
    address: Address, per_schema: bool
) -> None:
    with connect(address) as session:
        session.execute("create schema hr; create table hr.staff (id int); select lo_from_bytea(0, 'x')")
    plan = grants.plan_setup(address, ["postgres"], "backup", per_schema=per_schema, replication=True)
    for each in (plan, *plan_reader(address, ["postgres"], "backup", per_schema=per_schema)):
        grants.run(address, each)
    with connect(address) as session:
        session.execute("alter role backup password 'b'; alter role backup_reader password 'b'")
    role = Address(address.url.replace("postgres@", "backup@"), "b")
    server, database = check_server(role), check_database(role)
    assert (server.problems, server.warnings, database.problems) == ((), (), ())
    assert (database.facts["tables"], database.facts["large_objects"]) == (1, 1)
    with hold_snapshot(role) as held:
        assert (held.snapshot.exact, [table.label for table in held.catalog.tables]) == (True, ["hr.staff"])
    for name in ("backup_reader", "backup"):
        grants.run(address, grants.plan_remove(address, ["postgres"], name))
    with connect(address) as session:
        assert session.execute("select from pg_roles where rolname = 'backup'").fetchone() is None
        session.execute("drop schema hr cascade; select lo_unlink(oid) from pg_largeobject_metadata")
