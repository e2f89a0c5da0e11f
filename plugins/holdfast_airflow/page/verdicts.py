"""Verdicts: whether a source is protected as it should be, and why not."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from holdfast.common.words import named
from holdfast.config.archives_model import ObjectivesConfig
from holdfast.objectives import Facts, judge_facts

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
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
    :param reasons: why it is not ready, one sentence each.
    :param objectives: how each stands.
    """

    source: str
    state: State
    reasons: Sequence[str] = ()
    objectives: Sequence[Objective] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)

    def describe(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {
            "source": self.source,
            "state": self.state,
            "reasons": list(self.reasons),
            "objectives": [each.describe() for each in self.objectives],
            "facts": dict(self.facts),
        }


def judge_source(
    told: Mapping[str, Any],
    *,
    now: datetime,
    objectives: ObjectivesConfig | None,
    failures: Iterable[Task],
    sources: Collection[str],
    replication: Mapping[str, Any] | None,
) -> SourceVerdict:
    """Return the verdict on a source by its part of a record.

    :param told: of the record, as `holdfast.status.record_of` makes it.
    :param objectives: as archives.yaml has them now; None for those of the record.
    :param failures: open failures of the archive's tasks.
    :param sources: names of all sources of the archive.
    :param replication: state of the archive's replicas, where it has some.
    """
    name = told["source"]
    facts = Facts.from_described(told["facts"])
    wanted = objectives or ObjectivesConfig.model_validate(told.get("objectives") or {})
    judged = judge_facts(name, facts, wanted, now)
    reasons = [f"{each.name} {each.limit} is missed: {each.stands}" for each in judged if not each.is_met]
    if facts.restorable_to is None and not any(each.name == "rpo" for each in judged):
        reasons.append("there is no backup of it")
    if facts.damaged and not any(each.name == "verified_within" for each in judged):
        reasons.append(f"damaged: {named(facts.damaged)}")
    if facts.drill_failure and not any(each.name in ("rto", "drill_within") for each in judged):
        reasons.append(f"the newest drill failed: {facts.drill_failure}")
    if waiting := told.get("waiting"):
        tables = named([each["table"] for each in waiting])
        reasons.append(f"the newest rows of {tables} are in no backup: they wait to start over")
    reasons += [_failed(each) for each in failures if _is_about(each, name, sources)]
    reasons += _replicas(replication)
    if not reasons and not judged:
        return SourceVerdict(name, "unknown", [NO_OBJECTIVES], judged, told["facts"])
    return SourceVerdict(name, "not ready" if reasons else "ready", reasons, judged, told["facts"])


def without_record(source: str, failures: Iterable[Task], sources: Collection[str]) -> SourceVerdict:
    """Return the verdict on a source that no task has told anything of."""
    failed = [_failed(each) for each in failures if _is_about(each, source, sources)]
    return SourceVerdict(source, "not ready" if failed else "unknown", [NO_RECORD, *failed])


def _is_about(task: Task, source: str, sources: Collection[str]) -> bool:
    """Return whether a task is about a source, or about the whole archive; objectives are judged here anyway."""
    if task.dag_id.startswith("objectives_"):
        return False
    for prefix in ("backup_", "drill_"):
        if task.task_id.startswith(prefix):
            rest = task.task_id.removeprefix(prefix)  # a source, or a source and a replica
            return max((each for each in sources if f"{rest}_".startswith(f"{each}_")), key=len, default="") == source
    return not task.dag_id.startswith("restore_")


def _failed(task: Task) -> str:
    code = f" (exit code {task.exit_code})" if task.exit_code is not None else ""
    return f"{task.dag_id}, task {task.task_id} has failed{code}: {task.sentence or 'its log says why'}"


def _replicas(replication: Mapping[str, Any] | None) -> list[str]:
    if not replication:
        return []
    lost = [each["name"] for each in replication["replicas"] if each["lost"]]
    found = [f"lost: {named(lost)}"] if lost else []
    if missing := replication.get("missing"):
        found.append(f"nobody has the files of {len(missing)} entries of the update log")
    return found
