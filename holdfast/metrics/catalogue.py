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


_HELP: Final[Mapping[tuple[Group, tuple[str, ...]], Mapping[str, str]]] = {
    ("run", ("version",)): {"holdfast_build_info": "1; the label is the release that collects"},
    ("run", ()): {
        "holdfast_metrics_collected_timestamp_seconds": (
            "When these metrics were collected, by the collecting machine's clock"
        )
    },
    ("archive", ARCHIVE): {
        "holdfast_archive_up": "1 if all of the archive could be read, else 0",
        "holdfast_archive_bytes": "Stored bytes of the blocks of the archive",
        "holdfast_archive_blocks": "Blocks of the archive, one or more a backup",
        "holdfast_archive_commits": "Number of the newest commit",
        "holdfast_archive_format": "Format of the archive",
    },
    ("source", SOURCE): {
        "holdfast_source_restorable_from_timestamp_seconds": "Oldest moment that can be restored",
        "holdfast_source_restorable_to_timestamp_seconds": "Newest moment that can be restored",
        "holdfast_source_last_full_timestamp_seconds": "Moment of the newest full backup",
        "holdfast_source_last_drill_timestamp_seconds": "When the last successful drill ended",
        "holdfast_source_last_drill_duration_seconds": "How long that drill took, from its begin to a usable database",
        "holdfast_source_verified_since_timestamp_seconds": "Every file of the source was read, or written, after this",
        "holdfast_source_damaged_files": "Objects that the last verification of them found damaged or missing",
        "holdfast_source_key_proved_timestamp_seconds": "When a drill last opened the archive with a copy of its key",
        "holdfast_source_bytes": "Stored bytes of the blocks of the source",
        "holdfast_source_rows": "Rows of the newest full backup",
        "holdfast_source_full_backups": "Full backups that are in the archive",
        "holdfast_source_change_backups": "Blocks of changes that are in the archive",
        "holdfast_source_waiting_tables": "Tables that wait to start over: their newest rows are in no backup",
    },
    ("objective", OBJECTIVE): {
        "holdfast_objective_met": (
            "1 where the objective of archives.yaml is kept, 0 where it is missed; the label is rpo, rto, "
            "drill_within, verified_within or key_proved_within"
        ),
        "holdfast_objective_limit_seconds": "What the objective promises",
    },
    ("hold", SOURCE): {
        "holdfast_holds": "Holds on restore points of the source; they never expire",
        "holdfast_hold_oldest_created_timestamp_seconds": "When the oldest of these holds was made",
    },
    ("server", SOURCE): {
        "holdfast_source_server_up": "1 where the server of the source answered within ten seconds, else 0",
        "holdfast_slot_retained_bytes": "Bytes of the server's log that our slot keeps from removal",
        "holdfast_slot_limit_bytes": "What archives.yaml allows it to keep (max_retained_wal)",
        "holdfast_slot_safe_bytes": (
            "Bytes that may still be written before the server gives the slot up; missing where it has no limit"
        ),
        "holdfast_slot_lost": (
            "1 where the server has given the slot up, or the slot of a source that is followed is gone, else 0"
        ),
    },
    ("lock", ("archive", "resource", "mode", "state")): {
        "holdfast_locks": (
            "Locks, by resource; mode is R (shared), W (exclusive) or unknown, state is held, intent (a client "
            "waits), expired, dead, unreadable or foreign"
        )
    },
    ("lock", LOCK): {"holdfast_lock_oldest_timestamp_seconds": "Since when the oldest of these locks is there"},
    ("replica", ARCHIVE): {
        "holdfast_coordination_store_up": "1 where the coordination store of the replicas could be read, else 0",
        "holdfast_log_head_entry": "Index of the last entry of the update log",
        "holdfast_quorums_pending": "Backups that wait for their quorum",
        "holdfast_quorums_failed": "Backups in the update log whose quorum failed: taken back",
        "holdfast_entries_without_files": "Entries that stop replicas: no replica has their files",
    },
    ("replica", REPLICA): {
        "holdfast_replica_behind_entries": "Entries that the replica lacks",
        "holdfast_replica_behind_bytes": "Bytes that these entries add",
        "holdfast_replica_behind_seconds": (
            "Seconds since the first of these entries was appended; 0 where there is none"
        ),
        "holdfast_replica_lost": "1 where the replica is lost or being recovered, else 0",
        "holdfast_replica_active": "1 while the lease of the replica runs, else 0",
        "holdfast_replica_silent_seconds": "For how long the replica has not answered; 0 where it answers",
    },
    ("listing", ("archive", "reason")): {
        "holdfast_unneeded_bytes": (
            "Bytes that a vacuum deletes once their grace is over; reason is removed (blocks that truncation or "
            "compaction removed) or orphan (left by killed jobs, older than the grace)"
        )
    },
    ("listing", JOB): {
        "holdfast_job_last_ended_timestamp_seconds": (
            "When the last job of the operation and source ended; source is empty for jobs on the whole archive, "
            "and for failed ones that did not say theirs"
        ),
        "holdfast_job_last_duration_seconds": "How long that job took",
        "holdfast_job_last_rows": "Rows that it read or wrote",
        "holdfast_job_last_bytes": "Bytes that it stored, read, let go or deleted",
        "holdfast_job_last_exit_code": "0 where it succeeded, else its exit code",
    },
}
"""By subject and labels, the help of each metric."""

CATALOGUE: Final = {
    name: CataloguedMetric(name, group, labels, text)
    for (group, labels), metrics in _HELP.items()
    for name, text in metrics.items()
}
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
