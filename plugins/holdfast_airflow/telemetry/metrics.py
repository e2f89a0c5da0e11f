"""Metrics of tasks, sent as Airflow sends its own."""

from __future__ import annotations

import re
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from airflow.sdk.exceptions import TaskDeferred

from holdfast_airflow.exceptions import JobFailed
from locking.one_line import line_logger

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

log = line_logger(__name__)

EXITS = {1: "failed", 2: "usage", 3: "busy", 4: "damaged", 5: "refused", 6: "unknown"}
"""The command's exit codes in words, as the tag `exit` has them."""

ALL = "all"
"""In the place of a source: names with a tag missing would be of another depth."""


@dataclass
class JobMetrics:
    """Metrics of one job.

    :param source: the source in the archive, or `all`.
    :param began: `time.monotonic()` when its locks were acquired.
    """

    source: str = ALL
    summary: Mapping[str, Any] = field(default_factory=dict)
    began: float | None = None

    def begin(self, lock_wait_s: float, archive: str, operation: str) -> None:
        """Send how long the job has waited for its locks."""
        self.began = time.monotonic()
        _send("timing", "job.lock_wait", lock_wait_s * 1000, archive=archive, operation=operation, source=self.source)


@contextmanager
def job_metrics(archive: str, operation: str) -> Iterator[JobMetrics]:
    """Send how a job ended, its duration, rows and bytes; one that defers has not ended."""
    metrics = JobMetrics()
    exit_word = "failed"
    try:
        yield metrics
        exit_word = "ok"
    except TaskDeferred:
        exit_word = ""
        raise
    except JobFailed as error:
        exit_word = EXITS.get(error.exit_code, exit_word)
        raise
    finally:
        if exit_word:
            _send_job(metrics, exit_word, archive=archive, operation=operation, source=metrics.source)


def _send_job(metrics: JobMetrics, exit_word: str, **about: str) -> None:
    _send("incr", "jobs", 1, **about, exit=exit_word)
    if metrics.began is not None:
        _send("timing", "job.duration", (time.monotonic() - metrics.began) * 1000, **about)
    for key in ("rows", "bytes"):
        if isinstance(many := metrics.summary.get(key), int):
            _send("incr", f"job.{key}", many, **about)


def send_replica_metrics(archive: str, replicas: Iterable[Mapping[str, Any]]) -> None:
    """Send how far replicas are behind their log, as `replica status --json` has it."""
    for replica in replicas:
        for key in ("entries_behind", "bytes_behind", "seconds_behind"):
            _send("gauge", f"replica.{key}", replica[key], archive=archive, replica=replica["name"])


def send_objective_metrics(archive: str, objectives: Iterable[Mapping[str, Any]]) -> None:
    """Send whether each objective is missed: 1, or 0."""
    for objective in objectives:
        missed = 0 if objective["is_met"] else 1
        _send(
            "gauge",
            "objective.missed",
            missed,
            archive=archive,
            source=objective["source"],
            objective=objective["name"],
        )


def send_restorable_metric(archive: str, source: str, age_s: float) -> None:
    """Send the age of a source's newest restorable moment."""
    _send("gauge", "source.restorable_age", age_s, archive=archive, source=source)


def _send(kind: Literal["incr", "gauge", "timing"], name: str, value: float, **tags: str) -> None:
    """Send a metric with its tags, and once more with them in its name where Airflow does so with its own."""
    from airflow.sdk.configuration import conf
    from airflow.sdk.observability import stats

    send = getattr(stats, kind)
    plain = {key: _plain(tag) for key, tag in tags.items()}
    try:
        send(f"holdfast.{name}", value, tags=plain)
        if conf.getboolean("metrics", "legacy_names_on"):
            send(".".join(["holdfast", name, *(tag.replace(".", "__") for tag in plain.values())]), value)
    except Exception as error:  # noqa: BLE001 - a metric that is not sent fails no task
        log.warning("the metric holdfast.%s is not sent: %s", name, error)


def _plain(tag: str) -> str:
    """Return a tag without what names and tags may not have, as a URL does; the query of a URL is left out."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "_", tag.partition("?")[0])
