"""Operator that judges the objectives of an archive's sources."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from holdfast.common.units import parse_span
from holdfast.operations.archive_context import ArchiveContext
from holdfast_airflow.assets import fill_events
from holdfast_airflow.connections import find_archive_or_connection
from holdfast_airflow.exceptions import MissedObjectives, ObjectivesMissed, in_airflow_terms
from holdfast_airflow.operators.job import ArchiveOperator
from holdfast_airflow.telemetry.metrics import send_objective_metrics, send_restorable_metric

if TYPE_CHECKING:
    from collections.abc import Iterable

    from airflow.sdk import Context

    from holdfast.config.archives_model import ArchiveConfig
    from holdfast.objectives import Objective

SOONEST: Final = timedelta(minutes=10)
"""Between two judgements of an archive, at least: each costs Airflow seconds of CPU."""

LATEST: Final = timedelta(hours=6)
"""Between two judgements of an archive, at most: the page and the metrics show what the last one found."""

_WITHIN: Final = ("rpo", "drill_within", "verified_within", "key_proved_within")
"""Objectives that are missed by waiting; an `rto` is missed by a drill, and drills are rare."""


def judging_interval(archive: ArchiveConfig) -> timedelta | None:
    """Return a tenth of the shortest promised time, so that what is missed is reported a tenth late.

    None where nothing is promised.
    """
    promised = [source.objectives.model_dump(exclude_none=True) for source in archive.sources.values()]
    if not any(promised):
        return None
    limits = [parse_span(promise[word]) for promise in promised for word in _WITHIN if word in promise]
    return min(max(min(limits) / 10, SOONEST), LATEST) if limits else LATEST


def by_reason(missed: Iterable[Objective]) -> list[MissedObjectives]:
    """Return missed objectives by reason; of a failed drill, the one that its own task gives."""
    from holdfast.objectives import NEWEST_DRILL_FAILED

    together: dict[tuple[str, str], list[Objective]] = {}
    for objective in missed:
        together.setdefault((objective.source, objective.stands), []).append(objective)
    return [
        MissedObjectives(
            source,
            stands.removeprefix(NEWEST_DRILL_FAILED)
            if stands.startswith(NEWEST_DRILL_FAILED)
            else ", ".join(objective.name for objective in objectives),
            f"{source}: {' and '.join(f'{objective.name} {objective.limit}' for objective in objectives)} "
            f"{'is' if len(objectives) == 1 else 'are'} missed: {stands}",
        )
        for (source, stands), objectives in together.items()
    ]


class CheckObjectivesOperator(ArchiveOperator):
    """Operator that fails where an objective of an archive is missed.

    It fails without another try. The archive's `alerts` report an objective when it is missed, again after
    `alert_again`, and when it is kept again. It reads the archive itself: a DAG that is paused, broken or missing is
    noticed by what it did not do. Returns each objective with `source`, `name`, `limit`, `is_met` and `stands`.

    :param archive: a name in archives.yaml. (templated)
    """

    def execute(self, context: Context) -> list[dict[str, Any]]:
        from holdfast.archive import Archive
        from holdfast.objectives import judge, restorable_ages

        with in_airflow_terms():
            archive = ArchiveContext.resolve(find_archive_or_connection(self.archive))
            store = archive.open()
            opened = Archive.open(store)
            judged = judge(opened, archive.settings.sources)
            standings = [standing.describe() for standing in judged]
            send_objective_metrics(self.archive, standings)
            for source, age in restorable_ages(opened).items():
                send_restorable_metric(self.archive, source, age.total_seconds())
        for standing in judged:
            self.log.info("%s", standing)
        if missed := by_reason(standing for standing in judged if not standing.is_met):
            raise ObjectivesMissed(missed)
        fill_events(self.outlets, context, summary={"objectives": standings}, archive=archive, store=store)
        return standings
