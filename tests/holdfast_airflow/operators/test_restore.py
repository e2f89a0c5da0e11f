"""The restore operator: what its job is told, and what it returns."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.support.blocks import make_block
from holdfast.archive import Archive, Change
from holdfast.replication.log.settings import COORDINATION_VARIABLE
from holdfast.replication.log.store import CoordinationStore
from holdfast.storage import ObjectStore
from holdfast_airflow.exceptions import JobFailed
from holdfast_airflow.operators import RestoreOperator
from tests.support.airflow.operators import FakeSpark, KeptBetweenTries, Play, run
from tests.support.replicas.replicated import Replicas

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is at the address of the target; what is looked at there is tested with a server."""
    monkeypatch.setattr("holdfast.operations.database_checks.check_target_is_free", lambda *_: None)


def test_restore_is_submitted_with_its_arguments_and_target(
    store: ObjectStore, spark: FakeSpark, context: dict[str, Any]
) -> None:
    spark.play("succeed")
    operator = RestoreOperator(
        task_id="save",
        archive="shop",
        target_conn_id="shop_postgres",
        at="commit:1",
    )
    assert run(operator, context) == {
        "commit": 1,
        "restored_to": "2026-03-01T12:00:00Z",
        "position": "0/100",
        "tables": 2,
        "rows": 7,
        "seconds": 1.5,
        "not_restored": [],
        "skipped_existing": [],
        "unlogged": [],
        "stale": [],
        "lost": [],
        "log_only": [],
        "unproved_names": [],
        "schema_note": "",
    }
    seen = spark.seen()
    expected = ["--source", "shop_db", "--at", "commit:1"]
    assert seen["argv"][-len(expected) :] == expected
    assert seen["locks"] == ["format R save", "history R save"]
    assert seen["env"]["HOLDFAST_TARGET_URL"] == "postgresql://me@db.example:5433/shop?sslmode=require"
    assert "HOLDFAST_SOURCE_URL" not in seen["env"]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (
            {"tables": ["sales.*", "hr.people"], "map": ["sales=old_sales"], "only_plan": True},
            ["--tables", "sales.*", "--tables", "hr.people", "--map", "sales=old_sales", "--dry-run"],
        ),
        ({"consistency": "sequential"}, ["--consistency", "sequential"]),
        ({"consistency": "eventual", "only_plan": "False"}, []),
    ],
    ids=["tables, names and a plan", "a consistency", "the other one, and no plan, rendered"],
)
def test_restore_passes_on_what_it_was_given(
    store: ObjectStore, spark: FakeSpark, context: dict[str, Any], options: dict[str, Any], told: list[str]
) -> None:
    spark.play("plan")
    operator = RestoreOperator(task_id="save", archive="shop", target_conn_id="shop_postgres", **options)
    summary = run(operator, context)
    assert (summary["dry_run"], summary["plan"], summary["not_restored"]) == (True, {"tables": []}, [])
    argv = spark.seen()["argv"]
    assert argv[argv.index("--source") :] == ["--source", "shop_db", *told]


RESTORED = {"restored_to": "2026-03-01T12:00:00Z", "commit": 1, "rows": 7, "tables": 2, "seconds": 1.5}


@pytest.fixture
def two(tmp_path: Path, configuration: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Replicas]:
    """An archive with the replicas `far`, which is lost, and `near`; archives.yaml names `far` first."""
    monkeypatch.delenv(COORDINATION_VARIABLE, raising=False)
    address = f"sqlite:///{tmp_path}/log.db"
    with CoordinationStore.open(address) as coordination:
        replicas = Replicas.begun(tmp_path, coordination, "far")
        replicas.lose("far")
        configuration.write_text(
            "archives: {shop: {replicas: {far: far, near: near}, store: 'sqlite:///log.db', sources: {shop_db: "
            "{connection: shop_postgres}}}}"
        )
        yield replicas


@pytest.mark.parametrize(("consistency", "name"), [("sequential", "near"), ("eventual", "far"), (None, "far")])
def test_a_sequential_restore_is_from_the_first_replica_that_can_serve_it(
    two: Replicas,
    spark: FakeSpark,
    context: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    consistency: str | None,
    name: str,
) -> None:
    spark.play("tell")
    monkeypatch.setenv("FAKE_RESULT", json.dumps({**RESTORED, "read_from": {"replica": name}}))
    operator = RestoreOperator(task_id="save", archive="shop", target_conn_id="shop_postgres", consistency=consistency)
    assert run(operator, context)["read_from"] == {"replica": name}
    seen = spark.seen()
    assert seen["argv"][seen["argv"].index("--archive") + 1] == two.place(name).url
    assert seen["env"][COORDINATION_VARIABLE] == two.coordination.url


def test_another_try_restores_the_moment_that_latest_meant_to_the_first(
    store: ObjectStore, spark: FakeSpark, context: dict[str, Any], play: Play
) -> None:
    def back_up(number: int) -> None:
        block = make_block(identity=f"{number:032x}", source="shop_db", position=f"0/{number}00")
        change = Change(kind="backup", add=(block,))
        Archive.open(store).add(lambda state: change, check=lambda: None, fence=None)

    def restore() -> RestoreOperator:
        return RestoreOperator(task_id="save", archive="shop", target_conn_id="shop_postgres")

    kept = KeptBetweenTries()
    tries = {**context, "task_state_store": kept}
    back_up(1)
    spark.play("refuse")
    with pytest.raises(JobFailed, match="asked to refuse"):
        run(restore(), tries)
    back_up(2)
    play({"commit": 1, "rows": 7, "tables": 2, "seconds": 1.5, "restored_to": "2026-03-01T12:00:00Z"})
    run(restore(), tries)
    assert spark.seen()["argv"][-2:] == ["--at", "commit:1"]
    assert kept.words == {}
    run(restore(), tries)
    assert spark.seen()["argv"][-2:] == ["--at", "commit:2"]


def test_another_try_goes_on_with_the_time_before_now_of_the_first(
    store: ObjectStore, spark: FakeSpark, context: dict[str, Any]
) -> None:
    change = Change(kind="backup", add=(make_block(source="shop_db"),))
    Archive.open(store).add(lambda state: change, check=lambda: None, fence=None)
    kept = KeptBetweenTries()
    tries = {**context, "task_state_store": kept}
    spark.play("refuse")
    said = []
    for _ in range(2):
        with pytest.raises(JobFailed, match="asked to refuse"):
            run(RestoreOperator(task_id="save", archive="shop", target_conn_id="shop_postgres", at="-10min"), tries)
        said.append(spark.seen()["argv"][-1])
    assert said[0] == said[1]
