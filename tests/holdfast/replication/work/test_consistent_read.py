"""Sequential reads show all that has succeeded, and nothing else; eventual ones what the replica has."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection

from holdfast.archive import Archive
from holdfast.archive.format import last_seen
from holdfast.archive.format.last_seen import PutBackError
from holdfast.common.errors import BusyError, HoldfastError
from holdfast.postgresql.connection.server import PostgresServer
from holdfast.replication.log import log, schema
from holdfast.replication.log.errors import OldStoreError
from holdfast.replication.log.settings import QuorumRequest
from holdfast.replication.log.store import PASSWORD, CoordinationStore
from holdfast.replication.log.trimming import trim
from holdfast.replication.work.consistent_read import Opened, open_first, open_to_read, words_of
from holdfast.storage import open_store
from tests.support.replicas.rebuilt import copied
from tests.support.replicas.replicated import Replicas, made_backup, nothing
from tests.support.servers.postgres import Standby, create_database

pytestmark = pytest.mark.slow


def back_up(replicas: Replicas, name: str, source: str = "shop_db", *, size: int = 2, timeout: float = 600.0) -> str:
    """Make a backup through a replica that waits for a quorum; return its block."""
    archive = replicas.open(name)
    archive.quorum_request = QuorumRequest(size, timeout)
    block, plan = made_backup(archive.store, source)
    archive.add(plan, check=nothing, fence=None)
    return block


def fail(replicas: Replicas) -> None:
    """Let the deadlines of what is pending be over."""
    update = schema.quorums.update().values(deadline=0.0)
    replicas.coordination.run(lambda c: c.execute(update))
    replicas.coordination.run(lambda c: log.fail_overdue(c, replicas.archive, by="near", unread=()))


def read(replicas: Replicas, name: str) -> Opened:
    return open_to_read(replicas.place(name), "sequential", address=replicas.coordination.url)


def executing_between(
    monkeypatch: pytest.MonkeyPatch, replicas: Replicas, name: str, act: Callable[[], object]
) -> None:
    """Let something happen once, after a replica was opened and before the store is asked."""
    opening = Archive.open
    url = replicas.place(name).url

    def late(store: Any, **given: Any) -> Any:
        opened = opening(store, **given)
        if store.url == url:
            monkeypatch.undo()
            act()
        return opened

    monkeypatch.setattr(Archive, "open", late)


def test_an_archive_at_one_place_is_read_the_same_in_both_without_any_store(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "alone"))
    Archive.create(store, name="shop").add(made_backup(store, "shop_db")[1], check=nothing, fence=None)
    eventual, sequential = open_to_read(store), open_to_read(store, "sequential")
    assert eventual.state.blocks.keys() == sequential.state.blocks.keys() != set()
    assert words_of(sequential.describe()) == ""


def test_what_is_pending_is_hidden_and_shown_once_it_has_succeeded(two: Replicas) -> None:
    block = back_up(two, "near")
    assert block not in read(two, "near").state.blocks
    assert block in open_to_read(two.place("near")).state.blocks
    two.sync("far")
    assert block in read(two, "far").state.blocks
    with pytest.raises(BusyError, match="near ends at entry 1, and a sequential read needs 2"):
        read(two, "near")  # it does not know yet that it has succeeded
    two.sync("near")
    assert block in read(two, "near").state.blocks


def test_what_has_failed_is_hidden_until_it_is_taken_back(two: Replicas) -> None:
    block = back_up(two, "near")
    fail(two)
    assert block in two.state("near").blocks
    assert block not in read(two, "near").state.blocks
    two.sync("near")
    assert block not in two.state("near").blocks
    assert read(two, "near").state.blocks.keys() == two.state("near").blocks.keys()


def test_those_that_are_lost_are_not_named(three: Replicas) -> None:
    back_up(three, "near")
    three.sync("far")
    three.lose("near")
    with pytest.raises(BusyError, match=r"needs 2; far \(\S+far\) can be read"):
        read(three, "off")


def test_where_the_opened_commit_is_counts_and_not_the_pointer_as_of_now(
    two: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    back_up(two, "near")
    executing_between(monkeypatch, two, "far", lambda: two.sync("far"))
    with pytest.raises(BusyError, match="far ends at entry 0, and a sequential read needs 2"):
        read(two, "far")
    assert read(two, "far").behind == 0


def test_what_succeeded_last_counts_whatever_was_appended_first(three: Replicas) -> None:
    back_up(three, "near", "crm", size=3)
    three.sync("far")
    back_up(three, "near", "shop_db")  # entry 2, of another source, which does not wait for the first one
    three.sync("far")  # by entry 3, that one has succeeded
    three.sync("off", upto=1)  # and by entry 4 the first one
    with pytest.raises(BusyError, match="off ends at entry 1, and a sequential read needs 4"):
        read(three, "off")


def test_of_two_sources_at_once_what_is_pending_is_hidden_and_what_has_succeeded_is_shown(three: Replicas) -> None:
    crm = back_up(three, "near", "crm", size=3)
    shop = back_up(three, "near", "shop_db")
    three.sync("far")
    three.sync("near")
    for name in ("near", "far"):
        shown = read(three, name).state.blocks.keys()
        assert shop in shown
        assert crm not in shown
        assert read(three, name).state.ends.keys() == {"shop_db"}


def test_a_store_that_was_brought_back_from_an_older_copy_is_refused_by_any_replica(two: Replicas) -> None:
    two.back_up("near")

    def forget(c: Connection) -> None:
        c.execute(schema.archives.update().values(head=0))
        c.execute(schema.entries.delete())
        c.execute(schema.blocks.delete())

    two.coordination.run(forget)
    with pytest.raises(OldStoreError, match="near has executed entry 1"):
        read(two, "far")
    with pytest.raises(OldStoreError, match="near has executed entry 1"):
        open_first([two.place("far"), two.place("near")], "sequential", address=two.coordination.url)


def test_what_failed_and_was_trimmed_since_the_archive_was_opened_is_not_shown(
    two: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    back_up(two, "near")

    def take_back_and_trim() -> None:
        fail(two)
        two.sync("near")
        two.sync("far")
        assert trim(two.coordination, two.archive, min_keep=0).start == 3

    executing_between(monkeypatch, two, "near", take_back_and_trim)
    with pytest.raises(BusyError, match="near ends at entry 1, and a sequential read needs 2"):
        read(two, "near")


def test_a_store_that_cannot_be_reached_is_refused_and_what_works_without_it_is_said(two: Replicas) -> None:
    nowhere = "postgresql://nobody@127.0.0.1:1/nothing"
    with pytest.raises(HoldfastError, match="--consistency eventual reads one replica without it"):
        open_to_read(two.place("near"), "sequential", address=nowhere)
    assert open_to_read(two.place("near"), address=nowhere).state.blocks


@pytest.mark.service
def test_a_standby_of_the_store_is_not_asked_since_it_may_lag_behind(
    two: Replicas, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PASSWORD, postgres.password)
    database = create_database(postgres).database
    CoordinationStore.open(postgres.url(database)).close()  # its tables are there
    with (
        Standby(postgres) as standby,
        pytest.raises(HoldfastError, match="cannot be used: cannot use serializable mode in a hot standby"),
    ):
        open_to_read(two.place("near"), "sequential", address=standby.url(database))


def test_the_first_replica_that_qualifies_is_read(three: Replicas) -> None:
    back_up(three, "near")
    three.sync("far")
    three.lose("near")
    stores = [three.place(name) for name in ("gone", "near", "off", "far")]
    assert open_first(stores, "sequential", address=three.coordination.url).describe()["replica"] == "far"
    assert open_first(stores[1:]).describe()["replica"] == "near"


def test_where_none_qualifies_it_is_said_of_each(three: Replicas) -> None:
    back_up(three, "near")
    three.sync("far")
    stores = [three.place(name) for name in ("off", "near")]
    three.lose("near")
    with pytest.raises(BusyError, match=r"no replica can be read sequentially now: replica off .*; replica near is "):
        open_first(stores, "sequential", address=three.coordination.url)


def test_it_is_told_which_replica_was_read_and_how_fresh_it_is(two: Replicas) -> None:
    two.back_up("near")
    opened = read(two, "far")
    assert opened.describe() == {
        "url": two.place("far").url,
        "consistency": "sequential",
        "replica": "far",
        "index": 0,
        "entries_behind": 1,
        "commit": opened.state.sequence,
        "committed_at": opened.describe()["committed_at"],
        "cut_off": None,
        "not_asked": [],
    }
    assert words_of(opened.describe()) == "read from replica far at entry 0, 1 entries behind the log"
    eventual = open_to_read(two.place("far")).describe()
    assert eventual["entries_behind"] is None
    assert "how far the log is was not asked" in words_of(eventual)


def test_a_machine_that_never_saw_a_replica_asks_the_store_whether_it_is_an_older_copy_of_itself(
    two: Replicas, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(last_seen.VARIABLE, str(tmp_path / "never seen"))
    near = Path(two.place("near").url)
    two.back_up("near")
    two.back_up("near")
    shutil.copytree(near, tmp_path / "older")
    for _ in range(3):
        two.back_up("near")
    shutil.rmtree(tmp_path / "never seen")
    address = two.coordination.url
    assert open_to_read(two.place("near"), address=address).state.sequence
    shutil.rmtree(tmp_path / "never seen")
    shutil.rmtree(near)
    shutil.copytree(tmp_path / "older", near)
    with pytest.raises(PutBackError, match=r"it is an older copy of itself\. 'holdfast replica recover near'"):
        open_to_read(two.place("near"), address=address)
    with pytest.raises(PutBackError, match="it is an older copy of itself"):  # what was seen then does not count
        open_to_read(two.place("near"), address=address)
    gone = open_to_read(two.place("near"), address=f"sqlite:///{tmp_path / 'gone.db'}")
    assert gone.state.sequence  # a store that cannot be asked keeps nobody from an eventual read


def test_a_machine_that_never_saw_a_replica_reads_it_while_a_sync_goes_on(
    two: Replicas, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(last_seen.VARIABLE, str(tmp_path / "never seen"))
    two.back_up("near")
    shutil.rmtree(tmp_path / "never seen")
    executing_between(monkeypatch, two, "far", lambda: two.sync("far"))
    assert open_to_read(two.place("far"), address=two.coordination.url).state.log is not None


def test_a_machine_notices_that_all_were_put_back_and_went_another_way(
    two: Replicas, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(last_seen.VARIABLE, str(tmp_path / "seen"))
    two.back_up("near")
    two.sync("far")
    put_store_back = copied(two)
    for name in ("near", "far"):
        shutil.copytree(two.place(name).url, tmp_path / "kept" / name)
    for _ in range(3):
        two.back_up("near")
    two.sync("far")
    for name in ("near", "far"):
        open_to_read(two.place(name))
    put_store_back()
    for name in ("near", "far"):
        shutil.rmtree(two.place(name).url)
        shutil.copytree(tmp_path / "kept" / name, two.place(name).url)
    monkeypatch.setenv(last_seen.VARIABLE, "off")  # a worker without memory
    for _ in range(3):
        two.back_up("near")
    two.sync("far")
    monkeypatch.setenv(last_seen.VARIABLE, str(tmp_path / "seen"))
    for name in ("near", "far"):
        with pytest.raises(PutBackError, match="it was put back to an older state, or exchanged"):
            open_to_read(two.place(name))
