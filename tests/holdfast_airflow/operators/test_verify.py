"""Verification as a task: how much its job reads, and what becomes of damage."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast.archive import Archive
from holdfast.archive.maintenance.verify import verify
from holdfast.common.errors import DamagedError
from holdfast.replication.log.replicas import replica
from holdfast.storage import ObjectStore
from holdfast_airflow.exceptions import JobRefused
from holdfast_airflow.operators import (
    RecoverReplicas,
    VerifyOperator,
)
from locking import RWLock
from tests.support.airflow.operators import FakeSpark, Play, execute, run
from tests.support.replicas.replicated import Replicas

pytestmark = pytest.mark.slow


VERIFIED = {"commits": 3, "blocks": 2, "files": 9, "bytes": 90, "deep": True, "read_since": "2026-03-01T12:00:00Z"}


def test_verification_reads_as_much_as_archives_yaml_says(
    store: ObjectStore, spark: FakeSpark, context: dict[str, Any], configuration: Path, play: Play
) -> None:
    configuration.write_text("archives: {shop: {url: archive, verification: {deep_within: 10d, budget: 2h}}}")
    play({**VERIFIED, "damage": [], "costs": []})
    assert run(VerifyOperator(task_id="save", archive="shop"), context) == VERIFIED
    assert spark.told() == ["--deep", "--budget", "2h", "--within", "10d", "--new"]
    assert spark.seen()["locks"] == ["format R save"]
    run(VerifyOperator(task_id="save", archive="shop", within="1d", budget="1 GB"), context)
    assert spark.told() == ["--deep", "--budget", "1 GB", "--within", "1d", "--new"]
    run(VerifyOperator(task_id="save", archive="shop", deep="False"), context)
    assert spark.told() == ["--new"]


def test_damage_fails_the_task_for_good_and_is_named(
    store: ObjectStore, spark: FakeSpark, context: dict[str, Any], play: Play
) -> None:
    damage = [f"data/{number} is missing" for number in range(5)]
    play({**VERIFIED, "damage": damage})
    with pytest.raises(JobRefused, match=r"data/0 is missing; .*; and 2 more, in the log") as caught:
        run(VerifyOperator(task_id="save", archive="shop"), context)
    assert caught.value.exit_code == 4


def test_verification_waits_for_nobody_who_deletes_before_its_job_begins(
    store: ObjectStore, spark: FakeSpark, context: dict[str, Any], play: Play
) -> None:
    play({**VERIFIED, "damage": []})
    with RWLock(store, "history").write(purpose="vacuum", wait=0):  # its job waits for that, chunk by chunk
        assert run(VerifyOperator(task_id="save", archive="shop"), context) == VERIFIED


def found(*damage: str, replaceable: bool = True) -> dict[str, Any]:
    """What a verification has found."""
    return {"damage": list(damage), "costs": [{"file": each, "replaceable": replaceable} for each in damage]}


def test_a_replica_is_kept_where_no_other_one_could_give_what_is_damaged(shop: Replicas) -> None:
    verification = VerifyOperator(task_id="verify", archive="shop", replica="far")
    archive = Archive.open(shop.place("far"))
    result = verify(archive, deep=True).describe()  # the files of made-up backups are no Parquet, at every place
    assert result["damage"]
    with pytest.raises(DamagedError, match=r"damaged or missing: data/\S+\.parquet "):
        verification.summarise(archive.store, "run", result)
    with pytest.raises(DamagedError, match="commits/5 is another"):
        verification.summarise(archive.store, "run", found("commits/5 is another", replaceable=False))
    assert not shop.coordination.run(lambda c: replica(c, shop.archive, "far")).is_lost


def test_damage_is_told_also_where_the_replica_cannot_be_opened(shop: Replicas) -> None:
    verification = VerifyOperator(task_id="verify", archive="shop", replica="far")
    newest = max((shop.folder / "far" / "commits").iterdir())
    newest.chmod(0o644)
    newest.write_bytes(b"{")
    with pytest.raises(DamagedError, match="damaged or missing: a is missing"):
        verification.summarise(shop.place("far"), "run", found("a is missing"))


def test_a_damaged_replica_is_given_up_so_that_it_is_made_whole(shop: Replicas) -> None:
    file = next((shop.folder / "far" / "data").rglob("*.parquet"))
    file.unlink()
    verification = VerifyOperator(task_id="verify", archive="shop", replica="far")
    with pytest.raises(DamagedError, match="damaged or missing: a is missing"):
        verification.summarise(shop.place("far"), "run", found("a is missing"))
    row = shop.coordination.run(lambda c: replica(c, shop.archive, "far"))
    assert (row.is_lost, row.lost_reason) == (True, "verification has found 1 files that are damaged or missing")
    with pytest.raises(DamagedError, match="b is missing"):  # the last one is kept: there is nobody to fetch from
        verification.summarise(shop.place("near"), "run", found("b is missing"))
    assert not shop.coordination.run(lambda c: replica(c, shop.archive, "near")).is_lost
    (made,) = execute(RecoverReplicas(task_id="recover", archive="shop"))["recovered"]
    assert (made["replica"], made["files"]) == ("far", 1)
    assert shop.is_whole("far")
