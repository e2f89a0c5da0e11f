"""Metrics of tasks, sent as Airflow sends its own."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from airflow.sdk.exceptions import TaskDeferred

from holdfast.storage import ObjectStore
from holdfast_airflow.exceptions import JobFailed, JobRefused
from holdfast_airflow.telemetry.metrics import (
    job_metrics,
    send_objective_metrics,
    send_replica_metrics,
    send_restorable_metric,
)
from locking import RWLock
from tests.support.airflow.metrics import SentMetrics, sent_to
from tests.support.airflow.operators import FakeSpark, backup, run

ABOUT = {"archive": "shop", "operation": "backup", "source": "shop_db"}


@pytest.fixture
def sent() -> Iterator[SentMetrics]:
    """Metrics that the test has sent."""
    made = SentMetrics()
    with sent_to(lambda: made):
        yield made


def test_a_job_tells_how_it_ended_how_long_it_took_and_how_much_it_did(
    store: ObjectStore, spark: FakeSpark, context: dict[str, Any], sent: SentMetrics
) -> None:
    spark.play("succeed")
    run(backup(), context)
    assert sent.of("holdfast.jobs") == [({**ABOUT, "exit": "ok"}, 1)]
    assert sent.of("holdfast.job.rows") == [(ABOUT, 7)]
    assert sent.of("holdfast.job.bytes") == [(ABOUT, 70)]
    ((tags, took),) = sent.of("holdfast.job.duration")
    assert tags == ABOUT
    assert 0 < took < 60_000
    ((_, waited),) = sent.of("holdfast.job.lock_wait")
    assert 0 <= waited < 60_000


def test_no_metric_has_a_secret(
    store: ObjectStore, spark: FakeSpark, context: dict[str, Any], sent: SentMetrics
) -> None:
    for part in ("succeed", "refuse", "die"):
        spark.play(part)
        try:
            run(backup(), context)
        except JobFailed:
            assert part != "succeed"
    assert {tags["exit"] for tags, _ in sent.of("holdfast.jobs")} == {"ok", "refused", "failed"}
    assert "hunter2" not in str(sent.values)
    assert "postgresql://" not in str(sent.values)


def test_a_job_that_waits_for_its_locks_has_not_ended(
    store: ObjectStore, spark: FakeSpark, context: dict[str, Any], sent: SentMetrics
) -> None:
    with RWLock(store, "ingest-shop_db").write(purpose="another backup"), pytest.raises(TaskDeferred):
        run(backup(), context)
    assert sent.values == []


@pytest.mark.parametrize(
    ("error", "word"),
    [
        (JobRefused("no", 2), "usage"),
        (JobFailed("no", 3), "busy"),
        (JobRefused("no", 4), "damaged"),
        (JobRefused("no", 5), "refused"),
        (JobRefused("no", 6), "unknown"),
        (JobFailed("no"), "failed"),
        (RuntimeError("no"), "failed"),
    ],
)
def test_the_exit_code_of_a_failure_is_told_in_a_word(sent: SentMetrics, error: Exception, word: str) -> None:
    with pytest.raises(type(error)), job_metrics("shop", "vacuum"):
        raise error
    assert sent.of("holdfast.jobs") == [({"archive": "shop", "operation": "vacuum", "source": "all", "exit": word}, 1)]
    assert sent.of("holdfast.job.duration") == []


def test_where_airflow_writes_tags_into_names_so_does_holdfast(
    sent: SentMetrics, monkeypatch: pytest.MonkeyPatch
) -> None:
    with job_metrics("shop.eu", "vacuum"):
        pass
    send_replica_metrics("shop", [{"name": "far", "entries_behind": 2, "bytes_behind": 30, "seconds_behind": 4.5}])
    send_objective_metrics("shop", [{"source": "crm", "name": "rpo", "is_met": False}])
    send_restorable_metric("shop", "crm", 12.5)
    assert [(name, value) for (_, name, tags), value in sent.values if not tags] == [
        ("holdfast.jobs.shop__eu.vacuum.all.ok", 1),
        ("holdfast.replica.entries_behind.shop.far", 2),
        ("holdfast.replica.bytes_behind.shop.far", 30),
        ("holdfast.replica.seconds_behind.shop.far", 4.5),
        ("holdfast.objective.missed.shop.crm.rpo", 1),
        ("holdfast.source.restorable_age.shop.crm", 12.5),
    ]
    sent.values.clear()
    monkeypatch.setenv("AIRFLOW__METRICS__LEGACY_NAMES_ON", "False")
    with job_metrics("shop", "vacuum"):
        pass
    assert sent.names() == ["holdfast.jobs"]


def test_an_archive_that_is_a_url_is_a_tag_without_its_query(sent: SentMetrics) -> None:
    with job_metrics("az://backups/shop?sig=hunter2", "vacuum"):
        pass
    assert sent.of("holdfast.jobs")[0][0]["archive"] == "az_backups_shop"
    assert "hunter2" not in str(sent.values)


def test_a_metric_that_cannot_be_sent_fails_no_task(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(SentMetrics):
        def incr(self, stat: str, count: int = 1, *, tags: dict[str, str] | None = None) -> None:
            raise OSError("no route")

    with sent_to(Broken), job_metrics("shop", "vacuum"):
        pass
    assert "the metric holdfast.jobs is not sent: no route" in caplog.text


def test_a_statsd_server_gets_names_with_their_tags(monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow.sdk.observability.metrics.stats_utils import get_stats_factory

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        server.settimeout(10)
        settings = {"ON": "True", "HOST": "127.0.0.1", "PORT": server.getsockname()[1], "INFLUXDB_ENABLED": "True"}
        for name, value in settings.items():
            monkeypatch.setenv(f"AIRFLOW__METRICS__STATSD_{name}", str(value))
        monkeypatch.setenv("AIRFLOW__METRICS__LEGACY_NAMES_ON", "False")
        logger = get_stats_factory()()
        with closing(logger.statsd), sent_to(lambda: logger), job_metrics("shop", "backup") as measured:
            measured.summary = {"rows": 7}
        got = sorted(server.recv(1000).decode() for _ in range(2))
    assert got == [
        "airflow.holdfast.job.rows,archive=shop,operation=backup,source=all:7|c",
        "airflow.holdfast.jobs,archive=shop,operation=backup,source=all,exit=ok:1|c",
    ]
