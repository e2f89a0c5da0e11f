"""The operator of drills: its server lives while its restore does, and what was found is told and kept."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import TaskDeferred

from bench.support.blocks import make_block
from holdfast.archive import Archive, Change, locks
from holdfast.drill import drills_of
from holdfast.drill.assertions import Asserted
from holdfast.drill.key_proof import last_proof
from holdfast.postgresql.connection.address import Address
from holdfast.storage import ObjectStore, open_store
from holdfast.storage.encryption.key_source import new_key
from holdfast_airflow.exceptions import JobRefused
from holdfast_airflow.operators import DrillOperator
from locking import Owner, RWLock
from tests.support.airflow.operators import FakeSpark, KeptBetweenTries, locks_of, run

RESTORED = {"commit": 1, "rows": 7, "tables": 2, "bytes": 70, "seconds": 1.5, "not_restored": [], "equal": True}


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What became of the servers: none is started."""
    told: list[str] = []

    class Server:
        address = Address("postgresql://postgres@127.0.0.1:1/drill", "drawn")

        def __init__(self, *, at_least: int, encoding: str) -> None:
            told.append(f"{at_least} {encoding}")

        def start(self) -> None:
            told.append("started")

        def stop(self) -> None:
            told.append("stopped")

    monkeypatch.setattr("holdfast.drill.drill.DrillServer", Server)
    monkeypatch.setattr("holdfast.drill.drill.catalog_of", lambda *_: SimpleNamespace(encoding="UTF8"))
    return told


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What must hold; of these, only `select true` does."""
    statements: list[str] = []

    def check(address: Address, asserted: list[str]) -> tuple[Asserted, ...]:
        statements[:] = asserted
        return tuple(Asserted(sql, sql == "select true", "" if sql == "select true" else "no") for sql in asserted)

    monkeypatch.setattr("holdfast.drill.assertions.check", check)
    monkeypatch.setattr("holdfast.drill.drill.asking_login", nullcontext)
    return statements


@pytest.fixture
def spark(spark: FakeSpark, store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> FakeSpark:
    """A restore that goes well, of an archive that holds a backup."""
    block = make_block()
    Archive.open(store).add(lambda state: Change(kind="backup", add=(block,)), check=lambda: None, fence=None)
    monkeypatch.setenv("FAKE_RESULT", json.dumps(RESTORED))
    spark.play("tell")
    return spark


def drill(**more: Any) -> DrillOperator:
    return DrillOperator(task_id="save", archive="shop", source="shop_db", **more)


def test_a_random_moment_is_restored_into_a_server_of_its_own_that_is_gone_then(
    store: ObjectStore, spark: FakeSpark, context: dict[str, Any], servers: list[str], asked: list[str]
) -> None:
    found = run(drill(assertions=["select true"]), context)
    assert (found["source"], found["commit"], found["rows"], found["equal"]) == ("shop_db", 1, 7, True)
    assert found["assertions"] == [{"sql": "select true", "holds": True, "said": ""}]
    assert servers == ["18 UTF8", "started", "stopped"]
    seen = spark.seen()
    assert any(part.endswith("sparkjobs/restore.py") for part in seen["argv"])
    assert seen["argv"][-6:] == ["--source", "shop_db", "--at", "commit:1", "--roles", "harmless"]
    assert seen["env"]["HOLDFAST_TARGET_URL"] == "postgresql://postgres@127.0.0.1:1/drill"
    assert seen["env"]["PGPASSWORD"] == "drawn"
    assert "drawn" not in " ".join(seen["argv"])
    assert seen["locks"] == ["format R save", "history R save"]
    (kept,) = drills_of(store, "shop_db")
    assert (kept["state"], kept["seed"]) == ("succeeded", found["seed"])
    assert locks_of(store) == []


def test_a_copy_of_the_key_is_enough_and_is_proved(
    spark: FakeSpark, context: dict[str, Any], servers: list[str], asked: list[str], configuration: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    copy.write_text(new_key())
    copy.chmod(0o600)
    sealed, block = open_store(str(tmp_path / "sealed"), f"file:{copy}"), make_block()
    sealed.begin()
    Archive.create(sealed, name="shop").add(
        lambda state: Change(kind="backup", add=(block,)), check=lambda: None, fence=None
    )
    configuration.write_text(
        "archives: {shop: {url: sealed, encryption: {key: 'file:/nowhere/lost.key'}, "
        f"drill: {{key: 'file:{copy}'}}, sources: {{shop_db: {{connection: shop_postgres}}}}}}}}"
    )
    assert run(drill(), context)["equal"]
    assert spark.seen()["env"]["HOLDFAST_KEY"] == f"file:{copy}"
    assert last_proof(sealed) is not None


def test_the_moment_may_be_said(
    store: ObjectStore, spark: FakeSpark, context: dict[str, Any], servers: list[str], asked: list[str]
) -> None:
    assert run(drill(at="latest"), context)["seed"] is None
    assert "--at" not in spark.seen()["argv"]  # the newest one, unless another is named
    with pytest.raises(JobRefused, match="no restore point"):
        run(drill(at="commit:9"), context)
    assert servers == ["18 UTF8", "started", "stopped"]


def test_what_does_not_hold_fails_the_task_for_good(
    store: ObjectStore,
    spark: FakeSpark,
    context: dict[str, Any],
    servers: list[str],
    asked: list[str],
    configuration: Any,
) -> None:
    configuration.write_text(
        "archives: {shop: {url: archive, sources: {shop_db: {connection: shop_postgres}}, "
        "drill: {assertions: [select false]}}}"
    )
    with pytest.raises(JobRefused, match="1 of 2 assertions do not hold") as raised:
        run(drill(assertions=["select true"]), context)
    assert raised.value.exit_code == 4
    assert asked == ["select false", "select true"]
    assert servers[-1] == "stopped"
    assert [each["state"] for each in drills_of(store)] == ["failed"]


def test_a_restore_that_fails_fails_the_drill(
    store: ObjectStore, spark: FakeSpark, context: dict[str, Any], servers: list[str], asked: list[str]
) -> None:
    spark.play("refuse")
    with pytest.raises(JobRefused, match="asked to refuse"):
        run(drill(), context)
    assert servers == ["18 UTF8", "started", "stopped"]
    assert [(each["state"], each["error"]) for each in drills_of(store)] == [
        ("failed", "asked to refuse: do something else")
    ]
    assert asked == []


def test_another_try_has_the_moment_that_was_chosen_at_random(
    spark: FakeSpark, context: dict[str, Any], servers: list[str], asked: list[str]
) -> None:
    kept = KeptBetweenTries()
    tries = {**context, "task_state_store": kept}
    spark.play("refuse")
    with pytest.raises(JobRefused, match="asked to refuse"):
        run(drill(), tries)
    assert kept.words == {"holdfast_moment": "commit:1"}
    spark.play("succeed")
    kept.words["holdfast_moment"] = "latest"  # which none would choose by chance
    assert run(drill(), tries)["seed"] is None
    assert "--at" not in spark.seen()["argv"]
    assert kept.words == {}


def test_a_moment_that_is_gone_meanwhile_gives_way_to_another(
    spark: FakeSpark, context: dict[str, Any], servers: list[str], asked: list[str]
) -> None:
    kept = KeptBetweenTries()
    kept.words["holdfast_moment"] = "commit:9"
    found = run(drill(), {**context, "task_state_store": kept})
    assert (found["commit"], found["seed"] is None) == (1, False)
    assert kept.words == {}


def test_no_server_is_started_while_a_lock_is_waited_for(
    store: ObjectStore, spark: FakeSpark, context: dict[str, Any], servers: list[str]
) -> None:
    with RWLock(store, "history").write(purpose="vacuum"), pytest.raises(TaskDeferred):
        run(drill(), context)
    assert (servers, drills_of(store)) == ([], [])
    with (
        locks.acquire(store, "compaction", owner=Owner(), purpose="compaction", wait=0),
        pytest.raises(JobRefused),
    ):
        run(drill(at="commit:9"), context)  # nothing of a drill keeps out, or waits for, other work
