"""What a look at a database finds of the changes that are to be backed up; the look changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from holdfast.postgresql.catalog.catalog_queries import read_catalog, read_tables
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.logical import stream
from holdfast.postgresql.logical.stream import ExpectedStream, StreamState
from holdfast.postgresql.setup.readiness import Readiness
from holdfast.postgresql.setup.stream_readiness import check_stream
from tests.support.databases.granting import Execute

pytestmark = pytest.mark.service

NAME = stream.stream_name("stream readiness", "shop")
PLENTY = 1 << 40
NO_LIMIT = "max_slot_wal_keep_size is -1: a stream that nobody reads keeps the log until the disk is full"


def whats(found: Readiness) -> list[str]:
    """Return what is found beside the setting of the tests' server."""
    assert found.problems == ()
    said = [each.what for each in found.warnings]
    assert NO_LIMIT in said
    return [each for each in said if each != NO_LIMIT]


@pytest.fixture
def keyed(address: Address, execute: Execute) -> Address:
    execute("create table public.orders (id int primary key)", "create table public.notes (x int)")
    return address


@pytest.fixture
def state(keyed: Address) -> Iterator[StreamState]:
    with connect(keyed) as session:
        tables = read_catalog(session, read_tables(session), values=False).with_rows()
        yield stream.open_stream(keyed, NAME, tables)
        stream.drop_stream(session, NAME)


def test_a_database_without_a_stream_is_told_what_will_not_be_followed(keyed: Address) -> None:
    found = check_stream(keyed, None, (), (), limit_bytes=PLENTY)
    assert whats(found) == ["only in full backups, not followed (no primary key): public.notes"]
    assert found.facts["stream"] is None
    assert set(found.facts["not_followed"]) == {"public.notes"}
    assert whats(check_stream(keyed, NAME, (), ["*.notes"], limit_bytes=PLENTY)) == []


def test_a_pattern_that_matches_nothing_is_left_to_the_look_at_the_database(keyed: Address) -> None:
    assert whats(check_stream(keyed, None, ["public.missing"], (), limit_bytes=PLENTY)) == []


def test_a_role_that_may_not_replicate_or_publish_is_told_both(keyed: Address, role: str, execute: Execute) -> None:
    execute(f"create role {role} login password 'p' in role pg_read_all_data")
    found = check_stream(keyed.as_user(role, "p"), NAME, (), ["*.notes"], limit_bytes=PLENTY)
    assert whats(found) == [
        "changes cannot be backed up: the role has no REPLICATION right",
        f"{role} may not publish public.orders",
    ]
    assert found.warnings[0].do == f"alter role {role} replication"


def test_a_stream_is_told_as_it_is(keyed: Address, state: StreamState) -> None:
    found = check_stream(keyed, NAME, (), ["*.notes"], limit_bytes=PLENTY)
    assert whats(found) == []
    facts = found.facts["stream"]
    assert (facts["slot"], facts["position"], facts["followed"], facts["lost"]) == (NAME, state.position, 1, "")


def test_a_stream_that_keeps_too_much_or_lost_its_publication_is_warned_of(keyed: Address, state: StreamState) -> None:
    with connect(keyed) as session:
        session.execute("insert into public.orders values (1)")
        session.execute(f"drop publication {NAME}".encode())
    found = check_stream(keyed, NAME, (), ["*.notes"], limit_bytes=0)
    gone, kept = whats(found)
    assert gone == f"publication {NAME} is gone"
    assert kept.startswith(f"slot {NAME} keeps ")
    assert kept.endswith("more than max_retained_wal (0.00 GB), until the disk is full")
    assert found.warnings[-1].do == "back up changes now, or let holdfast source remove drop it"


def test_a_publication_of_another_making_is_told_with_what_to_do(keyed: Address, state: StreamState) -> None:
    with connect(keyed) as session:
        session.execute(f"alter publication {NAME} set (publish = 'insert')".encode())
    [what] = whats(check_stream(keyed, NAME, (), (), limit_bytes=PLENTY))
    assert "does not publish" in what


def test_changes_that_cannot_be_joined_are_told_alone(keyed: Address, state: StreamState) -> None:
    expected = ExpectedStream(name=NAME, position=state.position, publication_oid=state.publication_oid)
    assert whats(check_stream(keyed, NAME, (), ["*.notes"], expected=expected, limit_bytes=PLENTY)) == []
    earlier = replace(expected, position="0/1")
    found = check_stream(keyed, NAME, (), ["*.notes"], expected=earlier, limit_bytes=0)
    [what] = whats(found)
    assert what.startswith(
        f"no changes can be joined to the archive: slot {NAME} is at {state.position}, and the archive"
    )
    assert found.warnings[-1].do == "the next backup of changes begins anew, with a full one"
