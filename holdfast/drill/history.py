"""Records of an archive's drills."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.archive.format.document import iso
from holdfast.archive.format.runs import listed_runs, newest_records

if TYPE_CHECKING:
    from holdfast.archive.format.runs import ListedRun, Recorded
    from holdfast.storage import ObjectStore

PREFIX = "drill-"
"""Prefix of their records' names, before the source's."""


def drills_of(store: ObjectStore, source: str | None = None, *, most: int = 20) -> list[dict[str, Any]]:
    """Return the newest drills, of a source or all, the newest one last.

    Each has `run`, `ended` (by the store's clock), `state` ("running" also for a killed one), `error` and its findings:
    `source`, `at`, `equal`, `seconds`, `age_s`, `assertions` and more.
    """
    runs, drills = _runs(store, source), list[dict[str, Any]]()
    while runs and len(drills) < most:
        runs, newest = runs[: len(drills) - most], runs[len(drills) - most :]
        drills = [*map(_described, newest_records(newest)), *drills]
    return drills


class DrillStanding(NamedTuple):
    """Standing of a source's drills.

    :param good: the newest successful drill, as in `drills_of`.
    :param failure: why the newest that has ended failed, if it did.
    """

    good: dict[str, Any] | None
    failure: str


def drill_standing(store: ObjectStore, source: str, *, most: int = 20) -> DrillStanding:
    """Return the standing of a source's drills; requests: one listing, and one a drill back to a successful one."""
    failure = ""
    each_newest = (run.newest() for run in reversed(_runs(store, source)))
    for found in islice(filter(None, each_newest), most):
        if found.record.state == "succeeded":
            return DrillStanding(_described(found), failure)
        if found.record.error and not failure:
            failure = found.record.error.message
    return DrillStanding(None, failure)


def _runs(store: ObjectStore, source: str | None) -> list[ListedRun]:
    return listed_runs(store, f"{PREFIX}{f'{source}.' if source else ''}")


def _described(found: Recorded) -> dict[str, Any]:
    record = found.record
    return {
        "run": record.run,
        "ended": iso(found.at),
        "state": record.state,
        "error": record.error.message if record.error else "",
        **(record.result or {}),
    }
