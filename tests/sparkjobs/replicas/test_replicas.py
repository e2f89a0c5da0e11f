"""Backups through replicas: whichever one takes them, each can bring back every moment."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from holdfast.archive import Archive, locks
from holdfast.archive.history.restore_points import describe
from holdfast.common.errors import BusyError, DamagedError, HoldfastError, RefusedError, ReportedError, UsageError
from holdfast.operations.marks import set_mark
from holdfast.operations.requests.restore import RestoreRequest
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.server import PostgresServer
from holdfast.postgresql.restore.rows import load
from holdfast.replication.log.errors import LostReplicaError
from holdfast.replication.log.replicas import add, mark_lost, replica
from holdfast.replication.log.store import ENVIRONMENT, CoordinationStore
from holdfast.replication.work.giving_up import give_up
from holdfast.replication.work.membership import begin_membership
from holdfast.replication.work.rebuild_store import prepare, rebuild
from holdfast.replication.work.recovery import recover
from holdfast.replication.work.replica import ReplicatedArchive
from holdfast.replication.work.replica_backup import source_taken
from holdfast.storage import ObjectStore, open_store
from locking import Owner
from sparkjobs import restore
from tests.support.databases.roundtrips import hashes
from tests.support.following.followed import Followed, agree, comes_back, open_followed
from tests.support.jobs.command_here import run_here
from tests.support.jobs.inline_jobs import job_without_spark
from tests.support.replicas.replicated import remove
from tests.support.servers.postgres import passing_database

pytestmark = pytest.mark.service

NewDatabase = Callable[..., Address]


class Shop:
    """A database whose archive has the replicas `near` and `far`."""

    def __init__(self, address: Address, folder: Path, coordination: CoordinationStore) -> None:
        self.coordination = coordination
        self._address = address
        self._folder = folder
        self._stack = ExitStack()
        with open_followed(address, folder / "near") as begun:
            begun.run("create table t (id int primary key, word text)", "insert into t values (1, 'one'), (2, 'two')")
            begun.back_up()
            self.moments = begun.moments
        self.archive = Archive.open(self.place("near")).identity.id
        begin_membership(coordination, self.place("near"), "near")
        coordination.run(lambda c: add(c, self.archive, name="far", url=self.place("far").url))
        self.recover("far")
        self.near, self.far = self._followed("near"), self._followed("far")

    def place(self, name: str) -> ObjectStore:
        return open_store(str(self._folder / name))

    def recover(self, name: str) -> None:
        recover(self.coordination, self.archive, name)

    def _followed(self, name: str) -> Followed:
        store = self.place(name)
        held = self._stack.enter_context(
            locks.acquire(store, "backup", sources=["shop"], owner=Owner(), purpose="test", wait=0)
        )
        followed = Followed(self._address, store, held, self.moments)
        self._stack.callback(followed.session.close)
        return followed

    def sync(self, name: str) -> None:
        with self._locked(name) as held:
            ReplicatedArchive.begin(self.place(name), self.coordination).sync(check=held.check, fence=held.fence)

    def _locked(self, name: str) -> locks.HeldLocks:
        return locks.acquire(self.place(name), "sync", owner=Owner(), purpose="test", wait=0)

    def close(self) -> None:
        self._stack.close()


@pytest.fixture
def shop(postgres: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    url = f"sqlite:///{tmp_path}/coordination.db"
    monkeypatch.setenv(ENVIRONMENT, url)
    with CoordinationStore.open(url) as coordination, passing_database(postgres) as address:
        made = Shop(address, tmp_path, coordination)
        yield made
        made.close()


def test_backups_go_through_either_replica_and_both_bring_back_every_moment(
    shop: Shop, new_database: NewDatabase
) -> None:
    shop.near.run("insert into t values (3, 'three')")
    assert shop.near.back_up()["kind"] == "changes"
    shop.far.run("update t set word = 'zwei' where id = 2")
    assert shop.far.back_up()["kind"] == "changes"
    shop.near.run("delete from t where id = 1", "alter table t add extra int default 7")
    assert shop.near.back_up()["kind"] == "changes"
    shop.far.run("insert into t values (4, 'four', 4)")
    shop.far.back_up("full")
    shop.near.run("insert into t values (5, 'five', 5)")
    shop.near.back_up()
    shop.sync("far")
    states = [Archive.open(shop.place(name)).state for name in ("near", "far")]
    assert states[0].blocks.keys() == states[1].blocks.keys()
    assert (states[0].ends, states[0].streams) == (states[1].ends, states[1].streams)
    # The last backup has two commits: up to the full one, and on from there.
    assert [state.log.index for state in states if state.log] == [6, 6]
    for followed in (shop.near, shop.far):
        agree(followed, 1)
        comes_back(followed, "latest", new_database())


@pytest.mark.exhaustive
def test_a_replica_that_was_lost_is_made_anew_and_backs_up_again(shop: Shop, new_database: NewDatabase) -> None:
    shop.near.run("insert into t values (3, 'three')")
    shop.near.back_up()
    shop.coordination.run(lambda c: mark_lost(c, shop.archive, "far", "its disk was changed"))
    with pytest.raises(LostReplicaError, match=r"far is lost \(its disk was changed\): holdfast replica recover far"):
        shop.far.back_up()
    shop.far.held.release()  # a recovery is alone on its replica
    shop.recover("far")
    with locks.acquire(shop.far.store, "backup", sources=["shop"], owner=Owner(), purpose="test", wait=0) as held:
        shop.far.held = held
        shop.far.run("insert into t values (4, 'four')")
        assert shop.far.back_up()["kind"] == "changes"
        agree(shop.far, 1)
        comes_back(shop.far, "latest", new_database())


def test_a_source_that_is_backed_up_through_one_replica_is_busy_for_the_other(shop: Shop) -> None:
    busy = pytest.raises(
        BusyError, match=r"shop is being backed up by near, run run-of-near \(process \d+ .*\), whose lease ends in"
    )
    with source_taken(shop.near.store, "shop", "run-of-near", None), busy:
        shop.far.back_up()
    shop.far.back_up()
    row = shop.coordination.run(lambda c: replica(c, shop.archive, "far"))
    assert row.pointer == 2


def test_a_backup_of_a_replica_says_what_is_missing_where_nobody_knows_the_store(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(ENVIRONMENT)
    with pytest.raises(UsageError, match="say where the coordination store is: --store, HOLDFAST_STORE"):
        shop.near.back_up()


@pytest.mark.exhaustive
def test_after_the_store_was_deleted_and_rebuilt_changes_are_followed_on_through_every_replica(
    shop: Shop, new_database: NewDatabase
) -> None:
    shop.near.run("insert into t values (3, 'three')")
    shop.near.back_up()
    shop.far.run("insert into t values (4, 'four')")
    shop.far.back_up()  # near is behind by this one now
    Path(shop.coordination.url.removeprefix("sqlite:///")).unlink()
    with CoordinationStore.open(shop.coordination.url) as made_anew:
        planned = prepare(made_anew, {name: shop.place(name).url for name in ("near", "far")})
        assert rebuild(made_anew, planned).survey.source.name == "far"
    with pytest.raises(LostReplicaError, match="when the store was rebuilt: it ends at entry 1, and far at 2"):
        shop.near.back_up()
    shop.near.held.release()  # a recovery is alone on its replica
    shop.recover("near")
    with locks.acquire(shop.near.store, "backup", sources=["shop"], owner=Owner(), purpose="test", wait=0) as held:
        shop.near.held = held
        shop.near.run("update t set word = 'drei' where id = 3")
        assert shop.near.back_up()["kind"] == "changes"
        shop.far.run("delete from t where id = 1")
        assert shop.far.back_up()["kind"] == "changes"
        shop.sync("near")
        for followed in (shop.near, shop.far):
            agree(followed, 1)
            comes_back(followed, "latest", new_database())


def test_a_sequential_restore_leaves_out_what_waits_for_its_quorum(shop: Shop, new_database: NewDatabase) -> None:
    shop.near.run("insert into t values (3, 'three')")
    shop.near.back_up("full", "--quorum", "2")
    address = new_database()
    more = {ENVIRONMENT: shop.coordination.url}
    options = ("--to", address.url, "--consistency", "sequential", "--json")
    done = run_here("restore", shop.near.store.url, *options, address=address, more=more)
    assert done.code == 0, done.err
    assert done.value["rows"] == 2
    told = done.value["read_from"]
    assert (told["replica"], told["index"], told["entries_behind"]) == ("near", 1, 0)
    assert "read from replica near at entry 1, 0 entries behind the log" in done.err


@pytest.mark.exhaustive
def test_a_sequential_restore_that_was_ended_goes_on_from_another_replica_to_the_same_moment(
    shop: Shop, new_database: NewDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = new_database()
    at = f"lsn:{shop.near.archive().state.streams['shop']}"

    def bring_back(followed: Followed, name: str, at: str) -> dict[str, Any]:
        wish = RestoreRequest(at=at, consistency="sequential")
        with job_without_spark(followed.store, followed.held, name, "target", address) as job:
            return restore.restore(job, wish)

    def end(*args: object) -> None:
        raise HoldfastError("ended from outside")

    with monkeypatch.context() as ended:
        ended.setattr(load, "differences", end)
        with pytest.raises(ReportedError, match="ended from outside"):
            bring_back(shop.near, "run-1", at)
    shop.near.run("insert into t values (3, 'three')")
    shop.near.back_up("full", "--quorum", "2")
    shop.sync("far")
    with pytest.raises(RefusedError, match="holds an unfinished restore"):
        bring_back(shop.far, "run-2", "latest")
    done = bring_back(shop.far, "run-3", at)
    assert (done["rows"], done["read_from"]["replica"]) == (2, "far")
    assert done["resumed"]["run"] == "run-1"


@pytest.mark.exhaustive
def test_after_changes_were_given_up_the_source_is_begun_anew_and_the_gap_says_why(
    shop: Shop, new_database: NewDatabase
) -> None:
    shop.near.run("insert into t values (3, 'three')")
    shop.near.back_up()
    for path in (Path(shop.near.store.url) / "data").rglob("*changes*/**/*.parquet"):
        path.unlink()
    shop.coordination.run(lambda c: remove(c, shop.archive, "near", force=True))
    shop.far.run("insert into t values (4, 'four')")
    with pytest.raises(DamagedError, match="'holdfast replica give-up 1 --dry-run'"):
        shop.far.back_up()
    done, _ = give_up(shop.coordination, shop.archive, 1)
    assert shop.far.back_up()["kind"] == "full"
    (source,) = describe(Archive.open(shop.place("far")).state)["sources"]
    why = f"no replica had {done.missing[0]} any more (of the update log: 1)"
    assert [gap["reason"] for gap in source["gaps"]] == [f"backups of shop were given up: {why}"]
    shop.far.run("insert into t values (5, 'five')")
    assert shop.far.back_up()["kind"] == "changes"
    comes_back(shop.far, "latest", new_database())


@pytest.mark.exhaustive
def test_behind_a_full_backup_that_stays_where_changes_were_given_up_the_source_is_begun_anew(
    shop: Shop, new_database: NewDatabase
) -> None:
    shop.near.run("insert into t values (3, 'three')")
    shop.near.back_up()
    shop.near.run("insert into t values (4, 'four')")
    shop.near.back_up("full")
    for path in (Path(shop.near.store.url) / "data").rglob("*changes*/**/*.parquet"):
        path.unlink()
    shop.coordination.run(lambda c: mark_lost(c, shop.archive, "near", "its disk is rotten"))
    done, _ = give_up(shop.coordination, shop.archive, 1)
    assert ([each.index for each in done.entries], done.ends["shop"][1]) == ([1], "")
    shop.far.run("insert into t values (5, 'five')")
    assert shop.far.back_up()["kind"] == "full"
    shop.far.run("insert into t values (6, 'six')")
    assert shop.far.back_up()["kind"] == "changes"
    comes_back(shop.far, "latest", new_database())
    (source,) = describe(Archive.open(shop.place("far")).state)["sources"]
    assert f"backups of shop were given up: no replica had {done.missing[0]} any more" in source["gaps"][-1]["reason"]


@pytest.mark.exhaustive
def test_a_mark_knows_the_schema_whichever_replica_the_next_backup_goes_through(
    shop: Shop, new_database: NewDatabase
) -> None:
    shop.near.back_up()
    shop.near.run("insert into t values (3, 'three')")
    stores = [shop.place(name) for name in ("near", "far")]
    before = hashes(shop.near.address)
    assert set_mark(Archive.open(stores[0]), stores, shop.near.address, "shop", "before").why_unknown == ""
    shop.near.run("alter table t alter id type int using id * 100")
    shop.far.back_up()
    assert shop.place("far").list("marks/").objects == ()
    shop.sync("near")
    shop.near.run("insert into t values (7, 'seven')")
    shop.near.back_up()
    assert shop.place("near").list("marks/").objects == ()
    for each in (shop.near, shop.far):
        target = new_database()
        said = each.restore("before", target)
        assert (said["stale"], said["schema_note"]) == ([], "")
        assert hashes(target) == before
