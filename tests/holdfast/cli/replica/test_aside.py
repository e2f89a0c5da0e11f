"""`holdfast replica aside`: what only a replica had that was made anew is listed, brought back, or dropped."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.archive import Archive
from holdfast.archive.files.data_files import read_file
from holdfast.replication.log.store import ENVIRONMENT
from holdfast.storage import open_store
from locking import RWLock
from tests.support.jobs.command import RunCommand
from tests.support.replicas.rebuilt import bring_back, rebuild, urls
from tests.support.replicas.replicated import Replicas

pytestmark = [pytest.mark.slow]


@pytest.fixture
def aside(two: Replicas, monkeypatch: pytest.MonkeyPatch) -> Replicas:
    """Two replicas; `near` had one block that `far` never had, and was made anew from that one."""
    bring_back(two, ahead="near", behind="far")
    rebuild(two.coordination, urls(two), source="far")
    done = two.recover("near")
    assert done.aside == (two.backups[-1],)
    monkeypatch.setenv(ENVIRONMENT, two.coordination.url)
    return two


def test_what_is_set_aside_is_listed(holdfast: RunCommand, aside: Replicas) -> None:
    (block,) = holdfast("replica", "aside", "list", "near", "--json").value["aside"]
    assert (block["block"], block["source"], block["missing_files"]) == (aside.backups[-1], "shop_db", 0)
    assert aside.backups[-1] in holdfast("replica", "aside", "list", "near").out
    assert holdfast("replica", "aside", "list", "far").out == "nothing is set aside at far\n"


def test_it_comes_back_as_an_archive_of_its_own(holdfast: RunCommand, aside: Replicas, tmp_path: Path) -> None:
    into = str(tmp_path / "back")
    done = holdfast("replica", "aside", "restore", "near", "--into", into, "--json")
    assert done.code == 0, done.err
    assert done.value["blocks"] == [aside.backups[-1]]
    assert (done.value["files"], done.value["left_out"]) == (2 * len(aside.backups), [])
    made = Archive.open(open_store(into))
    assert made.state.log is None
    assert made.identity.id not in ("", aside.archive)
    assert made.state.blocks.keys() == set(aside.backups)
    for placed in made.state.blocks.values():
        for file in placed.block.files():
            read_file(made.store, file)
    (source,) = holdfast("points", into, "--json").value["sources"]
    assert source["source"] == "shop_db"
    assert holdfast("replica", "sync", "--all").code == 0
    assert aside.state("near").blocks.keys() == set(aside.backups[:-1])
    again = holdfast("replica", "aside", "restore", "near", "--into", into)
    assert (again.code, "is an archive already" in again.err) == (2, True)


def test_what_cannot_come_back_is_said(holdfast: RunCommand, aside: Replicas, tmp_path: Path) -> None:
    into = str(tmp_path / "back")
    refused = holdfast("replica", "aside", "restore", "near", "--into", into, "--commit", "1")
    assert (refused.code, "commit 1 of this replica has set nothing aside; these have: " in refused.err) == (2, True)
    assert "there is nothing to bring back" in holdfast("replica", "aside", "restore", "far", "--into", into).err
    for path in (aside.folder / "near" / "data").rglob(f"*{aside.backups[-1]}*/*"):
        path.unlink()
        break
    damaged = holdfast("replica", "aside", "restore", "near", "--into", into)
    assert (damaged.code, f"lacks files of block {aside.backups[-1]} by now" in damaged.err) == (4, True)
    assert "1 are missing" in holdfast("replica", "aside", "list", "near").out


def test_what_is_dropped_goes_with_the_next_vacuum(holdfast: RunCommand, aside: Replicas) -> None:
    block = aside.backups[-1]
    assert holdfast("replica", "aside", "drop", "near").code == 2
    assert f"block {'0' * 32} is not set aside at near" in holdfast("replica", "aside", "drop", "near", "0" * 32).err
    files = [path for path in (aside.folder / "near").rglob("*.*") if block in str(path) and "data" in path.parts]
    assert files
    done = holdfast("replica", "aside", "drop", "near", block, "--json")
    assert (done.code, done.value["dropped"]) == (0, [block])
    assert holdfast("replica", "aside", "list", "near").out == "nothing is set aside at near\n"
    assert holdfast("replica", "aside", "drop", "near", "--all").code == 2
    assert all(path.exists() for path in files)
    assert holdfast("vacuum", aside.place("near").url, "--grace", "0h").code == 0
    assert not any(path.exists() for path in files)
    aside.back_up("far")
    assert aside.sync("near").index == aside.sync("far").index
    assert aside.is_whole("near")


def test_what_an_entry_adds_is_not_dropped(
    holdfast: RunCommand, two: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ENVIRONMENT, two.coordination.url)
    two.back_up("near")
    two.lose("near")
    assert two.recover("near").aside == (two.backups[-1],)
    refused = holdfast("replica", "aside", "drop", "near", "--all")
    assert (refused.code, "an entry of the update log adds block" in refused.err) == (5, True)
    assert two.sync("far").index == 1


def test_who_works_on_the_replica_is_named(holdfast: RunCommand, aside: Replicas) -> None:
    with RWLock(aside.place("near"), "maintenance").write(purpose="a compaction"):
        busy = holdfast("replica", "aside", "drop", "near", "--all")
    assert (busy.code, "maintenance is held for writing for a compaction" in busy.err) == (3, True)
