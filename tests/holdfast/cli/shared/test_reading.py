"""`--consistency` and `--store` of the commands that read: which replica they read, and what of it."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from holdfast.archive import Archive
from holdfast.cli.shared import reading
from holdfast.replication.log.settings import COORDINATION_VARIABLE, QuorumRequest
from holdfast.replication.log.store import CoordinationStore
from holdfast.replication.work.membership import begin_membership
from tests.support.archives.queried import fill
from tests.support.jobs.command import Finished, RunCommand
from tests.support.replicas.hung import HUNG, LIMIT_S, PATIENCE_S, hanging
from tests.support.replicas.replicated import Replicas, made_backup, nothing

pytestmark = pytest.mark.slow

SQL = "select count(*) from shop.orders"


@pytest.fixture
def shop(tmp_path: Path, coordination: CoordinationStore) -> Replicas:
    """An archive with tables to query, the replicas `near` and `far`, and a backup that is pending at `near`."""
    replicas = Replicas(tmp_path, coordination)
    archive = Archive.create(replicas.place("near"), name="shop")
    fill(archive.store)
    replicas.archive = archive.identity.id
    begin_membership(coordination, archive.store, "near")
    replicas.add("far")
    back_up(replicas, "near")
    return replicas


def back_up(replicas: Replicas, name: str, source: str = "shop_db") -> None:
    archive = replicas.open(name)
    archive.quorum_request = QuorumRequest(2)
    archive.add(made_backup(archive.store, source)[1], check=nothing, fence=None)


def write_config(shop: Replicas, *names: str, more: str = "") -> None:
    places = ", ".join(f"{name}: {shop.place(name).url}" for name in names)
    Path("archives.yaml").write_text(f"archives: {{shop: {{replicas: {{{places}}}{more}}}}}")


def read_from(done: Finished) -> tuple[str, int, int | None]:
    assert done.code == 0, done.err
    told = done.value["read_from"]
    return told["replica"], told["index"], told["entries_behind"]


def test_points_show_what_is_pending_only_to_eventual_reads(holdfast: RunCommand, shop: Replicas) -> None:
    near = shop.place("near").url
    eventual = holdfast("points", near, "--json")
    sequential = holdfast("points", near, "--consistency", "sequential", "--json")
    assert read_from(eventual) == ("near", 1, None)
    assert read_from(sequential) == ("near", 1, 0)
    before = holdfast("points", shop.place("far").url, "--json").value["sources"]
    assert sequential.value["sources"] == before != eventual.value["sources"]
    assert "read from replica near at entry 1, 0 entries behind the log" in sequential.err


@pytest.mark.exhaustive
def test_a_replica_that_is_not_far_enough_is_busy(holdfast: RunCommand, shop: Replicas) -> None:
    shop.add("off")
    back_up(shop, "near", "crm")
    for name in ("near", "far"):
        shop.sync(name)
    for command in (["points"], ["query", SQL], ["restore", "--to", "postgresql://nobody@127.0.0.1:1/nothing"]):
        name, *rest = command
        done = holdfast(name, shop.place("off").url, *rest, "--consistency", "sequential", "--json")
        assert done.code == 3
        assert "sequential read needs 4; far (" in done.value["error"]


def test_of_an_archive_in_the_file_the_first_replica_that_qualifies_is_read(
    holdfast: RunCommand, shop: Replicas
) -> None:
    write_config(shop, "far", "near")
    shop.lose("far")
    assert read_from(holdfast("points", "shop", "--consistency", "sequential", "--json"))[0] == "near"
    assert read_from(holdfast("points", "shop", "--json"))[0] == "far"
    named = holdfast("points", shop.place("far").url, "--consistency", "sequential")
    assert named.code == 5
    assert "replica far is lost" in named.err


def test_the_file_may_say_which_consistency(holdfast: RunCommand, shop: Replicas) -> None:
    write_config(shop, "near", "far", more=", consistency: sequential")
    assert read_from(holdfast("points", "shop", "--json")) == ("near", 1, 0)
    assert read_from(holdfast("points", "shop", "--consistency", "eventual", "--json")) == ("near", 1, None)


@pytest.mark.exhaustive
def test_the_store_may_be_named(
    holdfast: RunCommand, shop: Replicas, log_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(COORDINATION_VARIABLE)
    near = shop.place("near").url
    unknown = holdfast("points", near, "--consistency", "sequential")
    assert unknown.code == 2
    assert "say where the coordination store is" in unknown.err
    assert read_from(holdfast("points", near, "--json"))[0] == "near"
    monkeypatch.setenv(COORDINATION_VARIABLE, "sqlite:///nowhere.db")  # which the option goes before
    done = holdfast("points", near, "--consistency", "sequential", "--store", log_address, "--json")
    assert read_from(done) == ("near", 1, 0)
    assert os.environ[COORDINATION_VARIABLE] == "sqlite:///nowhere.db"


def test_a_place_that_hangs_is_named_within_one_limit(
    holdfast: RunCommand, shop: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "LIMIT_S", LIMIT_S)
    with hanging(shop, "far"):
        began = time.monotonic()
        for words in (("points", HUNG), ("query", HUNG, SQL)):
            done = holdfast(*words)
            assert (done.code, f"{HUNG} has not answered within {LIMIT_S:g} s: " in done.err) == (1, True), done.err
        assert time.monotonic() - began < PATIENCE_S
