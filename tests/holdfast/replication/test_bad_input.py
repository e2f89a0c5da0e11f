"""Replicas and a coordination store that are not what they are taken for, or cannot be written."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bench.support.faults.disk import leave_room
from holdfast.archive import Archive
from holdfast.common.errors import UsageError
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.server import PostgresServer
from holdfast.postgresql.connection.session import connect
from holdfast.replication.log.errors import StoreAwayError
from holdfast.replication.log.store import PASSWORD, CoordinationStore
from holdfast.replication.work.replica import not_asked
from tests.support.replicas.replicated import Replicas, nothing
from tests.support.servers.postgres import create_database
from tests.support.servers.small_disk import small_disk


def back_up_often(replicas: Replicas) -> None:
    """Make more backups than a store's file has room for."""
    for _ in range(200):
        replicas.back_up("near")


def exchange(replicas: Replicas) -> None:
    """Exchange the folders of two replicas, as mounts are that came back in another order."""
    near, far, between = (replicas.folder / name for name in ("near", "far", "between"))
    near.rename(between)
    far.rename(near)
    between.rename(far)


def test_exchanged_mounts_are_told_by_both_and_nothing_is_lost_once_they_are_back(two: Replicas) -> None:
    two.back_up("near")
    exchange(two)
    works: tuple[Callable[[], object], ...] = (lambda: two.back_up("near"), lambda: two.sync("far"))
    for work in works:
        with pytest.raises(UsageError, match="Where folders or mounts were exchanged, exchange them back"):
            work()
    exchange(two)
    two.sync("far")
    assert two.state("far").blocks.keys() == two.state("near").blocks.keys() >= set(two.backups)


def test_archives_of_one_name_in_one_store_are_two(two: Replicas, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = Replicas.begun(tmp_path / "other", two.coordination, "far")
    for each in (two, other):
        each.back_up("near")
        each.sync("far")
    assert set(two.backups).isdisjoint(other.state("far").blocks)
    assert set(other.backups).isdisjoint(two.state("far").blocks)


def test_another_archive_in_a_replicas_place_is_named_and_never_written(two: Replicas) -> None:
    shutil.rmtree(two.folder / "far")
    stranger = Archive.create(two.place("far"), name="shop")
    through = two.open("near")
    through.add(two.backup(through.store), check=nothing, fence=None)
    (told,) = not_asked(through)
    assert (told["replica"], "is not replica far of this archive: something else lies there" in told["why"]) == (
        "far",
        True,
    )
    with pytest.raises(UsageError, match="has no replicas"):
        two.sync("far")
    two.lose("far")
    with pytest.raises(UsageError, match=f"it is an archive of its own \\(shop, {stranger.identity.id}\\)"):
        two.recover("far")
    assert two.state("far").sequence == stranger.state.sequence


def test_a_full_store_fails_a_backup_in_one_sentence_and_goes_on_with_room(tmp_path: Path) -> None:
    with (
        small_disk(tmp_path / "disk", "8m") as disk,
        CoordinationStore.open(f"sqlite:///{disk}/coordination.db") as coordination,
    ):
        two = Replicas.begun(tmp_path, coordination, "far")
        leave_room(disk, 0)
        with pytest.raises(StoreAwayError, match=r"cannot be used: .*full"):
            back_up_often(two)
        leave_room(disk, 4 << 20)
        two.back_up("near")
        two.sync("far")
        assert two.state("far").blocks.keys() == two.state("near").blocks.keys()


@pytest.fixture
def on_postgres(postgres: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Replicas]:
    """Replicas whose store is a database."""
    database = create_database(postgres)
    monkeypatch.setenv(PASSWORD, database.password or "")
    with CoordinationStore.open(database.url) as coordination:
        yield Replicas.begun(tmp_path, coordination, "far")


@pytest.mark.service
def test_a_store_that_only_reads_is_told_in_one_sentence(on_postgres: Replicas) -> None:
    url = on_postgres.coordination.url.replace("postgresql+psycopg", "postgresql")
    with CoordinationStore.open(f"{url}?options=-c%20default_transaction_read_only=on") as reading:
        before = on_postgres.state("near").sequence
        on_postgres.coordination = reading
        with pytest.raises(StoreAwayError, match="cannot be used: cannot execute UPDATE in a read-only transaction"):
            on_postgres.back_up("near")
    assert on_postgres.state("near").sequence == before


@pytest.mark.service
def test_a_role_without_rights_is_told_in_one_sentence(
    on_postgres: Replicas, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = on_postgres.coordination.url.replace("postgresql+psycopg", "postgresql")
    with connect(Address.parse(url, postgres.password)) as session:
        session.execute("create role only_reads login password 'x'")
        session.execute("grant select on all tables in schema public to only_reads")
    try:
        monkeypatch.setenv(PASSWORD, "x")
        with CoordinationStore.open(Address.parse(url).as_user("only_reads", "x").url) as reading:
            on_postgres.coordination = reading
            with pytest.raises(StoreAwayError, match="cannot be used: permission denied for table"):
                on_postgres.back_up("near")
    finally:
        with connect(Address.parse(url, postgres.password)) as session:
            session.execute("drop owned by only_reads")
            session.execute("drop role only_reads")
