"""Verdicts: whether a source is protected as it should be, and why not."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from holdfast.common.words import named
from holdfast.config.archives_model import ObjectivesConfig
from holdfast.objectives import Facts, judge_facts

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from holdfast.objectives import Objective
    from holdfast_airflow.page.activity import Task

NO_OBJECTIVES = "archives.yaml has no 'objectives' of it, so nothing says how fresh its backups have to be"

NO_RECORD = "no task has recorded anything of it yet: run its backup"

State = Literal["ready", "not ready", "unknown"]


@dataclass(frozen=True)
class SourceVerdict:
    """Verdict on one source.

    :param state: `ready` where all its objectives are kept and nothing speaks against it; `unknown` without a record,
        or without objectives.
    :param reasons: why it is not ready, one sentence each; what is wrong with the whole archive is not among them.
    """

    source: str
    state: State
    reasons: Sequence[str] = ()
    objectives: Sequence[Objective] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)

    def without(self, *reasons: str) -> SourceVerdict:
        """Return it without reasons that are said elsewhere."""
        return replace(self, reasons=tuple(why for why in self.reasons if why not in reasons))

    def describe(self) -> dict[str, Any]:
        return {
            "source": self.source,
            "state": self.state,
            "reasons": list(self.reasons),
            "objectives": [standing.describe() for standing in self.objectives],
            "facts": dict(self.facts),
        }


def judge_source(
    described: Mapping[str, Any],
    *,
    now: datetime,
    objectives: ObjectivesConfig | None,
    failures: Iterable[Task],
    sources: Collection[str],
) -> SourceVerdict:
    """Return the verdict on a source by its part of a record.

    :param described: of the record, as `holdfast.status.record_of` makes it.
    :param objectives: as archives.yaml has them now; None for those of the record.
    """
    name = described["source"]
    facts = Facts.from_described(described["facts"])
    agreed = objectives or ObjectivesConfig.model_validate(described.get("objectives") or {})
    judged = judge_facts(name, facts, agreed, now)
    reasons = [
        f"{standing.name} {standing.limit} is missed: {standing.stands}" for standing in judged if not standing.is_met
    ]
    if facts.restorable_to is None and not any(standing.name == "rpo" for standing in judged):
        reasons.append("there is no backup of it")
    if facts.damaged and not any(standing.name == "verified_within" for standing in judged):
        reasons.append(f"damaged: {named(facts.damaged)}")
    if facts.drill_failure and not any(standing.name in ("rto", "drill_within") for standing in judged):
        reasons.append(f"the newest drill failed: {facts.drill_failure}")
    if waiting := described.get("waiting"):
        tables = named([table["table"] for table in waiting])
        reasons.append(f"the newest rows of {tables} are in no backup: they wait to start over")
    reasons += _failures_of(name, failures, sources)
    if not reasons and not judged:
        return SourceVerdict(name, "unknown", [NO_OBJECTIVES], judged, described["facts"])
    return SourceVerdict(name, "not ready" if reasons else "ready", reasons, judged, described["facts"])


def without_record(source: str, failures: Iterable[Task], sources: Collection[str]) -> SourceVerdict:
    """Return the verdict on a source without a record."""
    failed = _failures_of(source, failures, sources)
    return SourceVerdict(source, "not ready" if failed else "unknown", [NO_RECORD, *failed])


def reasons_of_archive(
    failures: Iterable[Task], sources: Collection[str], replication: Mapping[str, Any] | None
) -> list[str]:
    """Return what is wrong with a whole archive, or with several of its sources alike."""
    alike = _alike(failures, sources)
    return [*(_failed(tasks) for about, tasks in alike if about == ""), *_replicas(replication)]


def shared_reasons(verdicts: Sequence[SourceVerdict]) -> tuple[list[str], list[SourceVerdict]]:
    """Return reasons that all sources share, and verdicts without them."""
    first, *others = verdicts or [SourceVerdict("", "unknown")]
    shared = [reason for reason in first.reasons if others and all(reason in other.reasons for other in others)]
    rest = [verdict.without(*shared) for verdict in verdicts]
    return [f"each source: {why}" for why in shared], rest


def source_of(task_id: str, sources: Collection[str]) -> str:
    """Return the source that a task of an archive's DAGs is about; "" where it is about the whole archive."""
    for prefix in ("backup_", "drill_"):
        if task_id.startswith(prefix):
            rest = task_id.removeprefix(prefix)  # a source, or a source and a replica
            return max((source for source in sources if f"{rest}_".startswith(f"{source}_")), key=len, default="")
    return ""


def _failures_of(source: str, failures: Iterable[Task], sources: Collection[str]) -> list[str]:
    return [_failed(tasks) for about, tasks in _alike(failures, sources) if about == source]


def _alike(failures: Iterable[Task], sources: Collection[str]) -> Iterator[tuple[str, list[Task]]]:
    """Yield the tasks that failed alike, with the only source that they are about, or "".

    Objectives are judged here anyway, and a failed restore says nothing of what can be restored.
    """
    groups: dict[tuple[object, ...], list[Task]] = {}
    for task in failures:
        if not task.dag_id.startswith(("objectives_", "restore_")) or task.dag_id.startswith("restore_drill_"):
            groups.setdefault((task.dag_id, task.exit_code, task.sentence), []).append(task)
    for tasks in groups.values():
        about = {source_of(task.task_id, sources) for task in tasks}
        yield about.pop() if len(about) == 1 else "", tasks


def _failed(tasks: Sequence[Task]) -> str:
    first, code = tasks[0], tasks[0].exit_code
    names = named([task.task_id for task in tasks])
    failed = f"task {names} has failed" if len(tasks) == 1 else f"tasks {names} have failed"
    exit_code = f" (exit code {code})" if code is not None else ""
    return f"{first.dag_id}, {failed}{exit_code}: {first.sentence or 'its log says why'}"


def _replicas(replication: Mapping[str, Any] | None) -> list[str]:
    if not replication:
        return []
    lost = [replica["name"] for replica in replication["replicas"] if replica["lost"]]
    reasons = [f"lost {'replica' if len(lost) == 1 else 'replicas'}: {named(lost)}"] if lost else []
    if missing := replication.get("missing"):
        entries = f"{len(missing)} {'entry' if len(missing) == 1 else 'entries'}"
        reasons.append(f"no replica has the files of {entries} of the update log")
    return reasons
