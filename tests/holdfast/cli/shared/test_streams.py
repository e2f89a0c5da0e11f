"""The streams that a command means: by names in archives.yaml, by addresses, and what an archive says of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.support.blocks import make_block
from holdfast.archive import Archive, Change
from holdfast.archive.format.block import Stream, WaitingTable
from holdfast.cli.shared.streams import expected_in, left_streams, other_streams, stream_names, waiting_in
from holdfast.common.errors import UsageError
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.logical.stream import stream_name
from holdfast.postgresql.logical.stream_state import ExpectedStream
from holdfast.postgresql.setup.backup_role import GrantChange
from holdfast.postgresql.setup.grants import DatabaseGrants, Plan
from holdfast.storage import ObjectStore

HERE = Address("postgresql://me@db/shopdb")
WAITING = WaitingTable(table="shop.orders", since=make_block().covers.to_time, reason="it was rewritten")


def configure(store: ObjectStore, url: str = HERE.url, *, more: str = "") -> None:
    """Write archives.yaml: the archive `kept` has a source `sales`."""
    Path("archives.yaml").write_text(
        f"archives: {{kept: {{url: {store.url}, sources: {{sales: {{url: '{url}'}}}}}}{more}}}"
    )


@pytest.fixture
def identity(store: ObjectStore) -> str:
    configure(store)
    return Archive.open(store).identity.id


@pytest.mark.parametrize("archive", [None, "kept"])
def test_the_own_database_has_the_name_in_the_archive_and_others_their_own(identity: str, archive: str | None) -> None:
    assert stream_names("sales", archive, "shopdb", ["shopdb", "crm"]) == {
        "shopdb": stream_name(identity, "sales"),
        "crm": stream_name(identity, "crm"),
    }


def test_an_address_alone_means_no_archive(identity: str) -> None:
    assert stream_names(HERE.url, None, "shopdb", ["shopdb"]) == {}
    assert left_streams(HERE.url, None, HERE, ["shopdb"]) == {}


def test_an_address_that_the_archive_knows_is_the_source_of_that_name(identity: str, store: ObjectStore) -> None:
    other = "postgresql://dba@db/shopdb"  # another user at the same place
    assert stream_names(other, "kept", "shopdb", ["shopdb"]) == {"shopdb": stream_name(identity, "sales")}
    assert stream_names("postgresql://me@far/shopdb", store.url, "shopdb", ["shopdb"]) == {
        "shopdb": stream_name(identity, "shopdb")
    }


def test_an_archive_that_is_not_named_is_the_only_one_with_the_source(identity: str, store: ObjectStore) -> None:
    with pytest.raises(UsageError, match=r"archives\.yaml has no source of this name"):
        stream_names("crm", None, "crm", ["crm"])
    configure(store, more=f", other: {{url: x, sources: {{sales: {{url: '{HERE.url}'}}}}}}")
    with pytest.raises(UsageError, match=r"several archives have it \(kept, other\): say which with --archive"):
        stream_names("sales", None, "shopdb", ["shopdb"])


def test_what_an_archive_expects_and_who_waits_is_what_its_newest_block_says(store: ObjectStore) -> None:
    configure(store)
    archive = Archive.open(store)
    stream = Stream(
        slot="s", position="0/80", opened=True, publication="s", publication_oid=5, publication_version="9",
        followed={1: 2}, waiting={1: WAITING},
    )  # fmt: skip
    assert (expected_in("sales", None, "mine"), waiting_in("sales", None)) == (None, ())
    block = make_block(source="sales", position="0/90").model_copy(update={"stream": stream, "supplement": False})
    archive.add(lambda state: Change(kind="backup", add=(block,)), check=lambda: None, fence=None)
    assert expected_in("sales", "kept", "mine") == ExpectedStream(
        name="mine", position="0/80", publication_oid=5, publication_version="9", system_identifier="7", timeline=1
    )
    assert expected_in("sales", "kept", None) is None
    assert waiting_in("sales", "kept") == ()  # a full backup has them
    rest = make_block(source="sales", position="0/A0").model_copy(update={"stream": stream, "supplement": True})
    archive.add(lambda state: Change(kind="backup", add=(rest,)), check=lambda: None, fence=None)
    assert waiting_in("sales", None) == waiting_in("sales", "kept") == (WAITING,)


@pytest.fixture
def with_streams(address: Address, store: ObjectStore) -> Address:
    """A database that is no source of the archive by its address, and has a stream of its source `sales`."""
    configure(store)
    publish(address, stream_name(Archive.open(store).identity.id, "sales"))
    return address


def publish(address: Address, *names: str) -> None:
    with connect(address) as session:
        for name in names:
            session.execute(f"create publication {name}".encode())


@pytest.mark.service
def test_a_stream_that_a_source_left_at_an_address_of_before_is_found_there(
    with_streams: Address, identity: str
) -> None:
    own, database = stream_name(identity, "sales"), with_streams.database
    assert left_streams(with_streams.url, "kept", with_streams, [database]) == {database: own}
    # One that has the stream of its own name is not asked for others.
    publish(with_streams, mine := stream_name(identity, database))
    assert left_streams(with_streams.url, "kept", with_streams, [database]) == {database: mine}


@pytest.mark.service
def test_of_several_streams_that_may_be_meant_none_is_chosen(with_streams: Address, store: ObjectStore) -> None:
    identity, database = Archive.open(store).identity.id, with_streams.database
    Path("archives.yaml").write_text(
        f"archives: {{kept: {{url: {store.url}, sources: "
        f"{{sales: {{url: '{HERE.url}'}}, crm: {{url: 'postgresql://me@db/crm'}}}}}}}}"
    )
    publish(with_streams, stream_name(identity, "crm"), stream_name("of another archive", "crm"))
    assert left_streams(with_streams.url, "kept", with_streams, [database]) == {
        database: stream_name(identity, database)
    }


@pytest.mark.service
def test_streams_that_a_plan_does_not_drop_are_told_of(with_streams: Address, identity: str) -> None:
    own, other, database = stream_name(identity, "sales"), stream_name("other", "sales"), with_streams.database
    publish(with_streams, other)
    change = GrantChange("it is no source any more", (f"drop publication {own}",))
    plan = Plan("role", (DatabaseGrants(database, (change,)),))
    assert list(other_streams(with_streams, [database], plan)) == [
        f"{database} has a stream of another archive, {other}: name it with --archive to drop that"
    ]
    assert len(list(other_streams(with_streams, [database], Plan("role", ())))) == 2
