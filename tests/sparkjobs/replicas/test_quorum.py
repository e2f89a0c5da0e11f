"""Backups that count once several replicas hold them, of a real server: what it may forget, and what comes back."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.archive import Archive
from holdfast.common.errors import BusyError, RefusedError
from holdfast.common.lsn import parse_position
from holdfast.operations.backup_run import confirm
from holdfast.postgresql.connection.address import Address
from holdfast.replication.log import log, schema
from holdfast.replication.log.errors import QuorumFailedError
from sparkjobs.driver import log_windows
from tests.sparkjobs.replicas.test_replicas import Shop, shop
from tests.support.following.followed import agree, comes_back

__all__ = ["shop"]  # the fixture

pytestmark = pytest.mark.service

NewDatabase = Callable[..., Address]

QUORUM = ("--quorum", "2")


def let_go(shop: Shop) -> int:
    """Return up to where the server has forgotten its log."""
    row = shop.near.session.execute(
        "select confirmed_flush_lsn::text from pg_replication_slots where database = current_database()"
    ).fetchone()
    assert row is not None
    return parse_position(row[0])


def archived(shop: Shop) -> int:
    """Return up to where the archive has the changes."""
    return parse_position(shop.near.archive().state.streams["shop"])


def address(shop: Shop) -> Address:
    return shop.near.address


def test_the_server_forgets_its_log_once_the_changes_count(shop: Shop, new_database: NewDatabase) -> None:
    before = archived(shop)
    shop.near.run("insert into t values (3, 'three')")
    result = shop.near.back_up("changes", *QUORUM)
    assert let_go(shop) == before
    done = confirm(shop.near.store, address(shop), result)
    assert done["quorum"] == {"entry": 1, "size": 2, "replicas": ["far", "near"]}
    assert let_go(shop) == parse_position(result["position"])
    for followed in (shop.near, shop.far):
        agree(followed, 1)
        comes_back(followed, "latest", new_database())


@pytest.mark.exhaustive
def test_changes_that_were_taken_back_are_read_anew(shop: Shop, tmp_path: Path, new_database: NewDatabase) -> None:
    before, blocks = archived(shop), shop.near.archive().state.blocks.keys()
    shop.near.run("insert into t values (3, 'three')")
    shutil.move(tmp_path / "far", tmp_path / "away")
    result = shop.near.back_up("changes", *QUORUM)
    with pytest.raises(BusyError, match=r"1 of 2 replicas \(near\)\. far: there is no archive at"):
        confirm(shop.near.store, address(shop), result, patience=0)
    shop.coordination.run(lambda c: c.execute(schema.quorums.update().values(deadline=1.0)))
    with pytest.raises(QuorumFailedError, match=r"Nothing of it counts\. See docs/runbooks/quorum-cannot"):
        confirm(shop.near.store, address(shop), result)
    assert (let_go(shop), shop.near.archive().state.blocks.keys()) == (before, blocks)
    shutil.move(tmp_path / "away", tmp_path / "far")
    shop.near.run("update t set word = 'drei' where id = 3")
    again = shop.near.back_up("changes", *QUORUM)
    assert again["transactions"] == 2  # those of the one before, too
    confirm(shop.near.store, address(shop), again)
    for followed in (shop.near, shop.far):
        agree(followed, 1)
        comes_back(followed, "latest", new_database())


@pytest.mark.exhaustive
def test_each_commit_of_one_run_counts_before_the_next_one_is_made(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, new_database: NewDatabase
) -> None:
    monkeypatch.setattr(log_windows, "MOST_CHANGES", 4)
    for number in range(10, 13):
        shop.near.run(f"insert into t values ({number}, 'many')")
    shop.near.run("create table u (id int primary key)", "insert into u values (1)")
    result = shop.near.back_up("changes", *QUORUM)
    assert (result["begun"], result["commits"] > 2) == (["public.u"], True)
    # Each but the last: to make it, the ones before had to be at `far`.
    states = [Archive.open(shop.place(name)).state for name in ("near", "far")]
    assert len(states[0].blocks.keys() - states[1].blocks.keys()) == 1
    confirm(shop.near.store, address(shop), result)
    assert let_go(shop) == parse_position(result["position"])
    agree(shop.near, 1)
    agree(shop.far, len(shop.near.moments) - 2)  # it has the same blocks
    comes_back(shop.far, "latest", new_database())


def test_a_log_is_not_let_go_of_that_another_backup_has_moved_on(shop: Shop) -> None:
    shop.near.run("insert into t values (3, 'three')")
    shop.near.back_up("changes")
    before = let_go(shop)
    run, archive = shop.coordination.run, shop.archive
    end, stream = run(lambda c: log.ends_of(c, archive, "shop"))
    assert parse_position(stream) == before
    with pytest.raises(RefusedError, match=r"the changes of shop end at .* by the update log, and not at 0/1"):
        run(lambda c: log.check_settled_at(c, archive, "shop", "0/1"))
    assert end == stream
