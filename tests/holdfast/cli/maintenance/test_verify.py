"""`holdfast verify` in parts: what is read now, what later, and what damage costs."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from bench.support.blocks import make_block
from holdfast.archive import Archive, Change
from holdfast.archive.format.commits import commit_key
from holdfast.archive.format.document import iso
from holdfast.archive.maintenance.scrub_schedule import RUN
from holdfast.operations.archive_context import ArchiveContext
from holdfast.operations.requests.base import Request
from holdfast.storage import ObjectStore, open_store
from locking import RWLock, inspect
from tests.support.jobs.command import RunCommand

pytestmark = pytest.mark.slow

LATER = datetime(2026, 3, 2, 12, tzinfo=UTC)


def one_sentence(err: str) -> str:
    """What the command said in the end."""
    return err.splitlines()[-1].removeprefix("holdfast: ")


def paths(store: ObjectStore) -> list[str]:
    (placed,) = Archive.open(store).state.blocks.values()
    return sorted(file.path for file in placed.block.files())


def test_a_budget_reads_a_part_and_the_next_run_goes_on(holdfast: RunCommand, filled: ObjectStore) -> None:
    first, second = (holdfast("verify", filled.url, "--deep", "--budget", "1B", "--json").value for _ in range(2))
    assert (first["files"], second["files"]) == (1, 1)
    assert first["bytes"] != second["bytes"]
    done = holdfast("verify", filled.url, "--deep", "--budget", "2h")
    assert done.out.startswith("2 of 2 files")
    assert done.out.splitlines()[-1].startswith("every file was read, or written, after 20")
    assert len(filled.list(f"runs/{RUN}/").objects) <= 2


def test_what_damage_costs_is_told(holdfast: RunCommand, filled: ObjectStore) -> None:
    path = paths(filled)[0]
    filled.put(path, filled.get(path)[:-1] + b"?")
    assert holdfast("verify", filled.url, "--new").code == 0
    done = holdfast("verify", filled.url, "--deep", "--within", "30d", "--budget", "1 GB", "--json")
    assert done.code == 4
    assert one_sentence(done.err) == "1 of 1 files are damaged or missing"
    (costs,) = done.value["costs"]
    assert (costs["file"], costs["table"], costs["source"], costs["commit"]) == (path, "shop.orders", "shop_db", 1)
    assert costs["replaceable"]
    assert costs["needed_for"] == [
        {
            "source": "shop_db",
            "from": "2026-03-01T12:00:00.000000Z",
            "to": "2026-03-01T12:00:00.000000Z",
            "first": "commit:1",
            "last": "commit:1",
            "points": 1,
        }
    ]
    assert done.value["damage"][0].endswith("needed for shop_db at 2026-03-01T12:00:00.000000Z (commit:1)")


def test_only_what_is_new_is_looked_at_where_that_is_wanted(holdfast: RunCommand, filled: ObjectStore) -> None:
    files = [holdfast("verify", filled.url, "--new", "--json").value["files"] for _ in range(2)]
    assert files == [2, 0]
    assert holdfast("verify", filled.url, "--json").value["files"] == 2


@pytest.mark.parametrize("options", [["--budget", "1 GB"], ["--within", "30d"], ["--spark"]])
def test_how_much_is_read_can_be_said_only_where_files_are_read(
    holdfast: RunCommand, filled: ObjectStore, options: list[str]
) -> None:
    done = holdfast("verify", filled.url, *options)
    assert (done.code, "need --deep" in one_sentence(done.err)) == (2, True)


def test_a_vacuum_at_work_is_named(holdfast: RunCommand, filled: ObjectStore) -> None:
    with RWLock(filled, "history").write(purpose="vacuum", wait=0):
        done = holdfast("verify", filled.url, "--deep")
    assert (done.code, "vacuum" in one_sentence(done.err)) == (3, True)
    assert inspect(filled) == []


def test_files_are_spread_over_spark_where_that_is_wanted(
    holdfast: RunCommand, filled: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def run_job(archive: ArchiveContext, request: Request, **more: Any) -> dict[str, Any]:
        asked.append((request.operation, archive.url, request.to_arguments(), more["wait"]))
        value = {"commits": 1, "blocks": 1, "files": 2, "bytes": 10, "deep": True, "costs": [], "read_since": None}
        return {**value, "damage": ["data/x is missing"]}

    monkeypatch.setattr("holdfast.cli.maintenance.verify.run_job", run_job)
    done = holdfast("verify", filled.url, "--deep", "--spark", "--budget", "1 GB", "--wait", "3")
    assert asked == [("verification", filled.url, ["--deep", "--budget", "1 GB"], 3)]
    assert (done.code, "damaged: data/x is missing" in done.out) == (4, True)


def test_damaged_files_are_put_back_from_a_copy(holdfast: RunCommand, filled: ObjectStore, tmp_path: Path) -> None:
    to = str(tmp_path / "copy")
    assert holdfast("copy", filled.url, to).code == 0
    changed, missing = paths(filled)
    filled.put(changed, filled.get(changed)[:-1] + b"?")
    filled.delete(missing)
    done = holdfast("verify", filled.url, "--deep", "--repair-from", to, "--json")
    assert done.code == 0, done.err
    assert sorted(done.value["repaired"]) == [changed, missing]
    assert (len(done.value["damage"]), done.value["not_repaired"]) == (2, {})
    assert holdfast("verify", filled.url, "--deep").code == 0


def test_what_cannot_be_put_back_is_said_and_stays_damage(
    holdfast: RunCommand, filled: ObjectStore, tmp_path: Path
) -> None:
    to = str(tmp_path / "copy")
    assert holdfast("copy", filled.url, to).code == 0
    first, second = paths(filled)
    for path in (first, second):
        filled.put(path, b"?")
    open_store(to).delete(first)
    done = holdfast("verify", filled.url, "--repair-from", to)
    assert done.code == 4
    assert f"repaired: {second}" in done.out.splitlines()
    assert f"not repaired: {first}: {first} is missing from {to}" in done.out
    assert one_sentence(done.err) == "1 of 2 files are damaged or missing"


def test_a_repair_waits_for_nobody_that_is_at_work(holdfast: RunCommand, filled: ObjectStore, tmp_path: Path) -> None:
    to = str(tmp_path / "copy")
    assert holdfast("copy", filled.url, to).code == 0
    path = paths(filled)[0]
    filled.put(path, b"?")
    with RWLock(filled, "ingest-shop_db").write(purpose="backup", wait=0):
        done = holdfast("verify", filled.url, "--repair-from", to)
    assert done.code == 3
    assert filled.get(path) == b"?"


def test_a_damaged_commit_is_told_with_what_is_behind_it_and_put_back_from_a_copy(
    holdfast: RunCommand, filled: ObjectStore, tmp_path: Path
) -> None:
    change = Change(kind="vacuum", reason="nothing")
    Archive.open(filled).add(lambda state: change, check=lambda: None, fence=None)
    (placed,) = Archive.open(filled).state.blocks.values()
    covers = make_block(position="0/200", at=LATER).covers
    again = Change(kind="backup", add=(placed.block.model_copy(update={"id": "later", "covers": covers}),))
    Archive.open(filled).add(lambda state: again, check=lambda: None, fence=None)
    copied = str(tmp_path / "copy")
    assert holdfast("copy", filled.url, copied).code == 0
    key = commit_key(2)
    filled.put(key, b"damaged")

    done = holdfast("points", filled.url, "--json")
    assert (done.code, done.value["read_from"]["commit"]) == (4, 1)
    assert key in done.value["read_from"]["cut_off"]
    assert [each["commit"] for each in done.value["sources"][0]["intervals"]] == [1]
    assert "What is read was committed before that, up to commit 1" in holdfast("points", filled.url).err

    done = holdfast("verify", filled.url, "--json")
    assert done.code == 4
    (costs,) = done.value["costs"]
    assert (costs["file"], costs["commit"], costs["source"]) == (key, 2, "the archive")
    assert [(each["first"], each["to"]) for each in costs["needed_for"]] == [("commit:3", iso(LATER))]

    for beside in (["--before-damage", "--dry-run"], ["--before-damage"]):
        done = holdfast("copy", filled.url, str(tmp_path / "before"), *beside, "--json")
        assert (done.code, done.value["commit"]) == (0, 1)
        assert key in done.value["left_out"]
    assert holdfast("points", str(tmp_path / "before")).code == 0

    done = holdfast("verify", filled.url, "--repair-from", copied, "--json")
    assert (done.code, done.value["repaired"]) == (4, [key])
    assert (
        one_sentence(done.err) == "the files of the commits that were put back are not verified yet: run it once more"
    )
    assert holdfast("verify", filled.url, "--deep").code == 0
    assert holdfast("points", filled.url).code == 0
