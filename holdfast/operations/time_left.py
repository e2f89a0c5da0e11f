"""The time that a job will take, by the steps of an earlier one."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from holdfast.archive.format.runs import listed_runs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.archive.format.runs import RunRecord
    from holdfast.storage import ObjectStore

_NAME: Final = re.compile(r"(.+\.)([0-9]{8}T[0-9]{6}Z)\.[0-9a-f]+")
_FORM: Final = "%Y%m%dT%H%M%SZ"
_BACK: Final = timedelta(days=40)
_MOST_LISTED: Final = 1000
_RUNS_READ: Final = 5
"""Bounds of the search: an archive has a run every few minutes, for years."""

_LEAST_S: Final = 1.0
"""Shorter steps say nothing about a job's pace."""


def steps_before(store: ObjectStore, run: str) -> Mapping[str, float]:
    """Return the seconds of each step of an earlier run of the same kind, whose name begins alike."""
    named = _NAME.fullmatch(run)
    if named is None:
        return {}
    since = datetime.strptime(named[2], _FORM).replace(tzinfo=UTC) - _BACK
    runs = listed_runs(store, named[1], since=f"{since:{_FORM}}", most=_MOST_LISTED)
    for earlier in [listed for listed in reversed(runs) if listed.name != run][:_RUNS_READ]:
        last = earlier.newest()
        if last is not None and last.record.state == "succeeded" and last.record.steps:
            return last.record.steps
    return {}


def time_left(record: RunRecord, before: Mapping[str, float]) -> float | None:
    """Estimate the seconds left of a whole job, by the pace of its finished steps.

    :param before: seconds of each step of the earlier job; without the present step there is no estimate.
    """
    if record.state != "running" or record.step not in before:
        return None
    finished = [step for step in record.steps if step in before and step != record.step]
    own, earlier = sum(record.steps[step] for step in finished), sum(before[step] for step in finished)
    step_left = record.left_s
    if step_left is not None:
        own, earlier = own + record.step_s + step_left, earlier + before[record.step]
    pace = own / earlier if min(own, earlier) >= _LEAST_S else 1.0
    if step_left is None:
        step_left = max(before[record.step] * pace - record.step_s, 0.0)
    later = sum(seconds for step, seconds in before.items() if step not in finished and step != record.step)
    return step_left + pace * later
