"""Compactions, truncations and vacuums of replicas: each keeps on bringing back every moment that is to stay."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.archive import Archive
from holdfast.archive.maintenance.verify import verify
from holdfast.common.errors import BusyError
from holdfast.postgresql.connection.address import Address
from holdfast.replication.log.leader import leader
from holdfast.replication.work.leading import leading
from holdfast.replication.work.replica import ReplicatedArchive
from tests.sparkjobs.replicas.test_replicas import Shop, shop
from tests.support.archives.compacting import NOTHING, compact, everything_told
from tests.support.following.followed import Followed, agree, comes_back
from tests.support.jobs.command import Finished
from tests.support.jobs.command_here import run_here

__all__ = ["shop"]  # the fixture

pytestmark = pytest.mark.service

NewDatabase = Callable[..., Address]


@pytest.fixture
def used(shop: Shop) -> Shop:
    """Replicas with three blocks of changes, of which `far` has all."""
    for number, replica in enumerate((shop.far, shop.near, shop.far)):
        replica.run(f"insert into t values ({10 + number}, 'new')", "update t set word = word || '.' where id < 3")
        replica.back_up()
    return shop


def data(followed: Followed) -> set[str]:
    """Return the paths of the data that are at a replica's place."""
    return {found.key for found in followed.store.list("data/").objects}


def named(followed: Followed) -> set[str]:
    return {file.path for placed in followed.archive().state.blocks.values() for file in placed.block.files()}


def opened(shop: Shop, name: str) -> ReplicatedArchive:
    return ReplicatedArchive.begin(shop.place(name), shop.coordination)


@pytest.mark.exhaustive
def test_only_the_leader_compacts_and_what_waits_for_its_quorum_is_neither_joined_nor_consolidated(used: Shop) -> None:
    with leading(opened(used, "far")), pytest.raises(BusyError, match="replica far leads"):
        compact(used.near.store)
    used.near.run("insert into t values (100, 'pending')")
    used.near.back_up("changes", "--quorum", "2")
    (pending,) = [key for key in used.near.archive().state.blocks if key not in used.far.archive().state.blocks]
    done = compact(used.near.store, consolidate=True)
    assert done["blocks_removed"] == 3
    assert used.coordination.run(lambda c: leader(c, used.archive)).name == ""  # it has resigned
    assert pending in used.near.archive().state.blocks
    assert compact(used.near.store, NOTHING, consolidate=True)["consolidated"] == []
    used.sync("far")
    assert compact(used.near.store, NOTHING, consolidate=True)["consolidated"]
    agree(used.near, 1)


@pytest.mark.e2e
def test_replicas_stay_equal_through_compaction_truncation_and_vacuum_by_command(
    used: Shop, new_database: NewDatabase
) -> None:
    near, far = used.near.store.url, used.far.store.url
    config = Path(near).parent / "archives.yaml"
    config.write_text(
        "archives: {shop: {replicas: {near: near, far: far}, store: '"
        f"{used.coordination.url}', compaction: {{min_age: 0h, min_blocks: 3}}}}}}"
    )

    def command(*arguments: str) -> Finished:
        done = run_here(*arguments, "--json", more={"HOLDFAST_ARCHIVES": str(config)})
        assert done.code == 0, done.err
        return done

    before = everything_told(used.near.store)
    assert command("compact", "shop", "--consolidate").value["blocks_removed"] == 3
    assert everything_told(used.near.store).keys() >= before.keys()
    command("replica", "sync", "--all")
    for followed in (used.near, used.far):
        agree(followed, 1)
    restored = [comes_back(followed, "latest", new_database()) for followed in (used.near, used.far)]
    assert restored[0]["position"] == restored[1]["position"]

    assert command("truncate", "shop", "--keep", "last=1").value["blocks_removed"] > 0
    told = command("vacuum", near, "--grace", "0h").value
    assert {name for each in told["awaited"] for name in each["replicas"]} == {"far"}
    command("replica", "sync", "--all")
    for url, followed in ((near, used.near), (far, used.far)):
        command("vacuum", url, "--grace", "0h")
        assert data(followed) == named(followed)
        assert verify(Archive.open(followed.store), deep=True).damage == ()
        comes_back(followed, "latest", new_database())
