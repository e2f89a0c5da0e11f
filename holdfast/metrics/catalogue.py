"""The catalogue of all metrics, and samples of them. Prometheus' text and docs/metrics.md are made from it.

All are gauges, in base units. Times are seconds since 1970, so that an age, `time() - x`, also grows between two
collections. Source: prometheus.io, 'Metric and label naming'.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

Group = Literal["run", "archive", "source", "objective", "hold", "server", "lock", "replica", "listing"]
"""The subject of a metric; `listing`: it needs a list of all objects, with `--listing`."""

ARCHIVE: Final = ("archive",)
SOURCE: Final = ("archive", "source")
OBJECTIVE: Final = (*SOURCE, "objective")
LOCK: Final = ("archive", "resource", "state")
REPLICA: Final = ("archive", "replica")
JOB: Final = ("archive", "operation", "source")


@dataclass(frozen=True)
class CataloguedMetric:
    """One metric: its name, group, the labels of its samples, and a sentence without a full stop."""

    name: str
    group: Group
    labels: tuple[str, ...]
    help: str


_LISTED = (
    CataloguedMetric("holdfast_build_info", "run", ("version",), "1; the label is the release that has asked"),
    CataloguedMetric(
        "holdfast_metrics_collected_timestamp_seconds",
        "run",
        (),
        "When these metrics were collected, by the clock of the machine that did",
    ),
    CataloguedMetric(
        "holdfast_archive_up", "archive", ARCHIVE, "1 where all that is asked of the archive could be read, else 0"
    ),
    CataloguedMetric("holdfast_archive_bytes", "archive", ARCHIVE, "Stored bytes of the blocks of the archive"),
    CataloguedMetric("holdfast_archive_blocks", "archive", ARCHIVE, "Blocks of the archive, one or more a backup"),
    CataloguedMetric("holdfast_archive_commits", "archive", ARCHIVE, "Number of the newest commit"),
    CataloguedMetric("holdfast_archive_format", "archive", ARCHIVE, "Format of the archive"),
    CataloguedMetric(
        "holdfast_source_restorable_from_timestamp_seconds", "source", SOURCE, "Oldest moment that can be restored"
    ),
    CataloguedMetric(
        "holdfast_source_restorable_to_timestamp_seconds", "source", SOURCE, "Newest moment that can be restored"
    ),
    CataloguedMetric(
        "holdfast_source_last_full_timestamp_seconds", "source", SOURCE, "Moment of the newest full backup"
    ),
    CataloguedMetric(
        "holdfast_source_last_drill_timestamp_seconds", "source", SOURCE, "When the last drill that went well ended"
    ),
    CataloguedMetric(
        "holdfast_source_last_drill_duration_seconds",
        "source",
        SOURCE,
        "How long that drill took, from its begin to a usable database",
    ),
    CataloguedMetric(
        "holdfast_source_verified_since_timestamp_seconds",
        "source",
        SOURCE,
        "Every file of the source was read, or written, after this",
    ),
    CataloguedMetric(
        "holdfast_source_damaged_files",
        "source",
        SOURCE,
        "Objects that the last verification of them found damaged or missing",
    ),
    CataloguedMetric(
        "holdfast_source_key_proved_timestamp_seconds",
        "source",
        SOURCE,
        "When a drill last had the key of the archive from a copy",
    ),
    CataloguedMetric("holdfast_source_bytes", "source", SOURCE, "Stored bytes of the blocks of the source"),
    CataloguedMetric("holdfast_source_rows", "source", SOURCE, "Rows of the newest full backup"),
    CataloguedMetric("holdfast_source_full_backups", "source", SOURCE, "Full backups that are in the archive"),
    CataloguedMetric("holdfast_source_change_backups", "source", SOURCE, "Blocks of changes that are in the archive"),
    CataloguedMetric(
        "holdfast_source_waiting_tables",
        "source",
        SOURCE,
        "Tables that wait to start over: their newest rows are in no backup",
    ),
    CataloguedMetric(
        "holdfast_objective_met",
        "objective",
        OBJECTIVE,
        "1 where the objective of archives.yaml is kept, 0 where it is missed; the label is rpo, rto, drill_within, "
        "verified_within or key_proved_within",
    ),
    CataloguedMetric("holdfast_objective_limit_seconds", "objective", OBJECTIVE, "What the objective promises"),
    CataloguedMetric("holdfast_holds", "hold", SOURCE, "Holds on restore points of the source; they never expire"),
    CataloguedMetric(
        "holdfast_hold_oldest_created_timestamp_seconds", "hold", SOURCE, "When the oldest of these holds was made"
    ),
    CataloguedMetric(
        "holdfast_source_server_up",
        "server",
        SOURCE,
        "1 where the server of the source answered within ten seconds, else 0",
    ),
    CataloguedMetric(
        "holdfast_slot_retained_bytes", "server", SOURCE, "Bytes of the server's log that our slot keeps from removal"
    ),
    CataloguedMetric(
        "holdfast_slot_limit_bytes", "server", SOURCE, "What archives.yaml allows it to keep (max_retained_wal)"
    ),
    CataloguedMetric(
        "holdfast_slot_safe_bytes",
        "server",
        SOURCE,
        "Bytes that may still be written before the server gives the slot up; missing where it has no limit",
    ),
    CataloguedMetric(
        "holdfast_slot_lost",
        "server",
        SOURCE,
        "1 where the server has given the slot up, or the slot of a source that is followed is gone, else 0",
    ),
    CataloguedMetric(
        "holdfast_locks",
        "lock",
        ("archive", "resource", "mode", "state"),
        "Locks, by resource; mode is R (shared), W (exclusive) or unknown, state is held, intent (somebody waits), "
        "expired, dead, unreadable or foreign",
    ),
    CataloguedMetric(
        "holdfast_lock_oldest_timestamp_seconds", "lock", LOCK, "Since when the oldest of these locks is there"
    ),
    CataloguedMetric(
        "holdfast_coordination_store_up",
        "replica",
        ARCHIVE,
        "1 where the coordination store of the replicas could be read, else 0",
    ),
    CataloguedMetric("holdfast_log_head_entry", "replica", ARCHIVE, "Index of the last entry of the update log"),
    CataloguedMetric("holdfast_replica_behind_entries", "replica", REPLICA, "Entries that the replica lacks"),
    CataloguedMetric("holdfast_replica_behind_bytes", "replica", REPLICA, "Bytes that these entries add"),
    CataloguedMetric(
        "holdfast_replica_behind_seconds",
        "replica",
        REPLICA,
        "Seconds since the first of these entries was appended; 0 where there is none",
    ),
    CataloguedMetric(
        "holdfast_replica_lost", "replica", REPLICA, "1 where the replica is lost or being recovered, else 0"
    ),
    CataloguedMetric("holdfast_replica_active", "replica", REPLICA, "1 while the lease of the replica runs, else 0"),
    CataloguedMetric(
        "holdfast_replica_silent_seconds",
        "replica",
        REPLICA,
        "For how long the replica has not answered; 0 where it answers",
    ),
    CataloguedMetric("holdfast_quorums_pending", "replica", ARCHIVE, "Backups that wait for their quorum"),
    CataloguedMetric(
        "holdfast_quorums_failed", "replica", ARCHIVE, "Backups in the update log whose quorum failed: taken back"
    ),
    CataloguedMetric(
        "holdfast_entries_without_files", "replica", ARCHIVE, "Entries that stop replicas: nobody has their files"
    ),
    CataloguedMetric(
        "holdfast_unneeded_bytes",
        "listing",
        ("archive", "reason"),
        "Bytes that a vacuum deletes once their grace is over; reason is removed (blocks that truncation or compaction "
        "removed) or orphan (left by killed jobs, older than the grace)",
    ),
    CataloguedMetric(
        "holdfast_job_last_ended_timestamp_seconds",
        "listing",
        JOB,
        "When the last job of the operation and source ended; source is empty for jobs on the whole archive, and for "
        "failed ones that did not say theirs",
    ),
    CataloguedMetric("holdfast_job_last_duration_seconds", "listing", JOB, "How long that job took"),
    CataloguedMetric("holdfast_job_last_rows", "listing", JOB, "Rows that it read or wrote"),
    CataloguedMetric("holdfast_job_last_bytes", "listing", JOB, "Bytes that it stored, read, let go or deleted"),
    CataloguedMetric("holdfast_job_last_exit_code", "listing", JOB, "0 where it succeeded, else its exit code"),
)

CATALOGUE: Final = {each.name: each for each in _LISTED}
"""All metrics by name, in the order of the text."""


@dataclass(frozen=True)
class Sample:
    """One value of a metric; raises ValueError for another metric or other labels than the catalogue's."""

    name: str
    labels: Mapping[str, str]
    value: float

    def __post_init__(self) -> None:
        metric = CATALOGUE.get(self.name)
        if metric is None or tuple(self.labels) != metric.labels:
            raise ValueError(f"the catalogue has no metric {self.name} with the labels {', '.join(self.labels)}")

    def describe(self) -> dict[str, Any]:
        """Return the sample as `metrics --json` prints it."""
        return {"name": self.name, "labels": dict(self.labels), "value": self.value}


def sample(name: str, value: float | datetime, *labels: str) -> Sample:
    """Return a sample; labels are in the order of the catalogue."""
    number = float(value) if isinstance(value, (int, float)) else value.timestamp()
    return Sample(name, dict(zip(CATALOGUE[name].labels, labels, strict=True)), number)
