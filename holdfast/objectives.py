"""Objectives of sources, judged by what an archive itself remembers: Airflow may be down, paused or broken."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from holdfast.archive.archive import IDENTITY_KEY
from holdfast.archive.format.document import iso
from holdfast.archive.history.restore_points import intervals, source_names
from holdfast.archive.maintenance.scrub_schedule import checked_since, damaged_files, read_progress
from holdfast.common.units import parse_span
from holdfast.common.words import human_span, named
from holdfast.drill.history import drills_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from holdfast.archive import Archive
    from holdfast.config.archives_model import ObjectivesConfig, SourceConfig
    from holdfast.storage import ObjectStore


@dataclass(frozen=True)
class Objective:
    """One objective of a source, and how it stands.

    :param name: as in archives.yaml: `rpo`, `rto`, `drill_within` or `verified_within`.
    :param limit: in words, as there.
    :param is_met: whether it is kept.
    :param stands: a clause that says how it stands.
    """

    source: str
    name: str
    limit: str
    is_met: bool
    stands: str

    def describe(self) -> dict[str, Any]:
        """Return it as `--json` prints it."""
        return asdict(self)

    def __str__(self) -> str:
        return f"{self.source}: {self.name} {self.limit} is {'kept' if self.is_met else 'missed'}: {self.stands}"


def judge(archive: Archive, sources: Mapping[str, SourceConfig]) -> list[Objective]:
    """Return how the objectives of an archive's sources stand; requests: one, and two a source with drills.

    :param sources: by name, as in archives.yaml; a source without a backup misses all that it promises.
    """
    now = archive.store.list(IDENTITY_KEY).now
    return [each for name, source in sources.items() for each in _of(archive, name, source.objectives, now)]


def judge_verification(archive: Archive, source: str, within: str) -> Objective:
    """Return whether every file of a source was read, or written, within a length of time; requests: two.

    :param within: such as `30d`.
    :raises UsageError: it is no length of time.
    """
    return _verified(archive, source, within, archive.store.list(IDENTITY_KEY).now)


def _of(archive: Archive, source: str, objectives: ObjectivesConfig, now: datetime) -> Iterator[Objective]:
    if objectives.rpo:
        yield _rpo(archive, source, objectives.rpo, now)
    if objectives.rto or objectives.drill_within:
        yield from _of_drills(archive.store, source, objectives, now)
    if objectives.verified_within:
        yield _verified(archive, source, objectives.verified_within, now)


def _rpo(archive: Archive, source: str, limit: str, now: datetime) -> Objective:
    if source not in source_names(archive.state):
        return Objective(source, "rpo", limit, False, "there is no backup of it")
    end = intervals(archive.state, source)[-1].end
    age = now - end
    return Objective(
        source,
        "rpo",
        limit,
        age <= parse_span(limit),
        f"the newest restorable moment is {iso(end)}, {human_span(age)} ago",
    )


def _of_drills(store: ObjectStore, source: str, objectives: ObjectivesConfig, now: datetime) -> Iterator[Objective]:
    well = [each for each in drills_of(store, source) if each["state"] == "succeeded"]
    last = well[-1] if well else None
    if limit := objectives.drill_within:
        if last is None:
            yield Objective(source, "drill_within", limit, False, "no drill of it has gone well")
        else:
            age = now - datetime.fromisoformat(last["ended"])
            is_met = age <= parse_span(limit)
            yield Objective(source, "drill_within", limit, is_met, f"the last drill went well {human_span(age)} ago")
    if limit := objectives.rto:
        if last is None or last.get("seconds") is None:
            yield Objective(source, "rto", limit, False, "no drill has measured it")
        else:
            took = timedelta(seconds=last["seconds"])
            yield Objective(source, "rto", limit, took <= parse_span(limit), f"the last drill took {human_span(took)}")


def _verified(archive: Archive, source: str, limit: str, now: datetime) -> Objective:
    progress = read_progress(archive.store)
    since = checked_since(archive.state, progress, source)
    if since is None:
        return Objective(source, "verified_within", limit, False, "there is no backup of it")
    if damaged := damaged_files(archive.state, progress, source):
        return Objective(source, "verified_within", limit, False, f"damaged: {named(damaged)}")
    age = now - since
    return Objective(
        source,
        "verified_within",
        limit,
        age <= parse_span(limit),
        f"every file was read, or written, within {human_span(age)}",
    )
