"""Lineage of backups and restores, as Airflow's OpenLineage provider asks for it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from airflow.providers.openlineage.extractors.base import DefaultExtractor
from openlineage.client.serde import Serde

from holdfast.postgresql.connection.address import Address
from holdfast.storage import ObjectStore
from holdfast_airflow.operators import RestoreOperator, VerifyOperator
from holdfast_airflow.telemetry.lineage import archive_name, database_name
from tests.support.airflow.operators import FakeSpark, backup, run

DATABASE = {"namespace": "postgres://db.example:5433", "name": "shop"}


def told(operator: Any) -> dict[str, Any]:
    """Return what the provider gets, as it sends it."""
    lineage = DefaultExtractor(operator).extract_on_complete(None)
    assert lineage is not None
    sides = {"inputs": lineage.inputs, "outputs": lineage.outputs}
    sent = {side: [json.loads(Serde.to_json(each)) for each in datasets] for side, datasets in sides.items()}
    assert "hunter2" not in str(sent)
    assert "me@" not in str(sent)
    return sent


def named(datasets: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: each[key] for key in ("namespace", "name")} for each in datasets]


@pytest.fixture
def archive(store: ObjectStore) -> dict[str, str]:
    """The archive, as a dataset."""
    return {"namespace": "file", "name": store.url.removeprefix("file://")}


def test_a_backup_reads_the_database_and_writes_the_archive(
    archive: dict[str, str], spark: FakeSpark, context: dict[str, Any]
) -> None:
    spark.play("succeed")
    operator = backup()
    run(operator, context)
    sent = told(operator)
    assert (named(sent["inputs"]), named(sent["outputs"])) == ([DATABASE], [archive])
    (output,) = sent["outputs"]
    statistics = output["outputFacets"]["outputStatistics"]
    assert (statistics["rowCount"], statistics["size"]) == (7, 70)
    assert output["facets"]["version"]["datasetVersion"] == "1"


def restore(**more: Any) -> RestoreOperator:
    return RestoreOperator(task_id="back", archive="shop", target_conn_id="shop_postgres", **more)


@pytest.fixture
def free_target(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every target is empty."""
    monkeypatch.setattr("holdfast.operations.database_checks.check_target_is_free", lambda *_: None)


@pytest.mark.usefixtures("free_target")
def test_a_restore_reads_the_archive_and_writes_the_database(
    archive: dict[str, str], spark: FakeSpark, context: dict[str, Any]
) -> None:
    spark.play("succeed")
    operator = restore()
    run(operator, context)
    sent = told(operator)
    assert (named(sent["inputs"]), named(sent["outputs"])) == ([archive], [DATABASE])
    assert sent["inputs"][0]["facets"]["version"]["datasetVersion"] == "1"
    assert sent["outputs"][0]["outputFacets"]["outputStatistics"]["rowCount"] == 7


@pytest.mark.usefixtures("free_target", "store")
def test_a_dry_run_moves_nothing(spark: FakeSpark, context: dict[str, Any]) -> None:
    spark.play("plan")
    operator = restore(only_plan=True)
    run(operator, context)
    assert told(operator) == {"inputs": [], "outputs": []}


def test_a_job_on_the_archive_alone_and_one_that_has_not_ended_have_no_lineage() -> None:
    assert told(VerifyOperator(task_id="verify", archive="shop")) == {"inputs": [], "outputs": []}
    assert backup().get_openlineage_facets_on_complete(None) is None


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("s3://backups/team/shop", ("s3://backups", "team/shop")),
        ("gs://backups", ("gs://backups", "/")),
        ("file:///srv/shop", ("file", "/srv/shop")),
        ("/srv/shop", ("file", "/srv/shop")),
    ],
)
def test_an_archive_is_called_by_its_bucket_and_prefix(url: str, name: tuple[str, str]) -> None:
    assert archive_name(url) == name


def test_a_database_behind_a_socket_is_on_this_machine() -> None:
    assert database_name(Address.parse("postgresql:///shop?host=/run/postgresql")) == (
        "postgres://localhost:5432",
        "shop",
    )
