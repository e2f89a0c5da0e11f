"""Objectives of sources, judged by what an archive itself remembers: Airflow may be down, paused or broken."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from holdfast.archive.archive import IDENTITY_KEY
from holdfast.archive.format.document import iso
from holdfast.archive.history.coverage import covered_ranges
from holdfast.archive.history.restore_points import source_names
from holdfast.archive.maintenance.scrub_schedule import checked_since, damaged_files, read_progress
from holdfast.common.units import parse_span
from holdfast.common.words import human_span, named
from holdfast.drill.history import drill_standing
from holdfast.drill.key_proof import last_proof

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.archive import Archive
    from holdfast.config.archives_model import ObjectivesConfig, SourceConfig
    from holdfast.storage import ObjectStore

NEWEST_DRILL_FAILED: Final = "the newest drill failed: "
"""Begin of an objective's clause where a drill failed; the drill's reason follows."""


@dataclass(frozen=True)
class Objective:
    """One objective of a source, and how it stands.

    :param name: as in archives.yaml: `rpo`, `rto`, `drill_within`, `verified_within` or `key_proved_within`.
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


@dataclass(frozen=True)
class Facts:
    """Facts of a source that its objectives are judged by; all times are by the store's clock.

    :param restorable_to: the newest restorable moment; None without a backup.
    :param drilled: when the last drill that went well ended.
    :param drill_failure: why the newest drill failed; "" where it went well, or there is none.
    :param drill_s: seconds that it took, from its begin to a usable database.
    :param verified: every file was read, or written, after this; None without a backup.
    :param damaged: files that a verification found damaged.
    :param key_proved: when a drill last had the archive's key from a copy.
    """

    restorable_to: datetime | None = None
    drilled: datetime | None = None
    drill_failure: str = ""
    drill_s: float | None = None
    verified: datetime | None = None
    damaged: tuple[str, ...] = ()
    key_proved: datetime | None = None

    def describe(self) -> dict[str, Any]:
        """Return them as JSON; `from_described` reads it back."""
        return {
            "restorable_to": _told(self.restorable_to),
            "drilled": _told(self.drilled),
            "drill_failure": self.drill_failure,
            "drill_s": self.drill_s,
            "verified": _told(self.verified),
            "damaged": list(self.damaged),
            "key_proved": _told(self.key_proved),
        }

    @classmethod
    def from_described(cls, told: Mapping[str, Any]) -> Facts:
        """Return the facts that `describe` told."""
        times = {key: _time(told.get(key)) for key in ("restorable_to", "drilled", "verified", "key_proved")}
        return cls(
            drill_s=told.get("drill_s"),
            drill_failure=told.get("drill_failure", ""),
            damaged=tuple(told.get("damaged", ())),
            **times,
        )


def facts_of(
    archive: Archive, source: str, *, drills: bool = True, verification: bool = True, key: bool = True
) -> Facts:
    """Return the facts of a source; requests: two for `drills`, one for `verification`, two for `key`."""
    facts = Facts(key_proved=last_proof(archive.store)) if key else Facts()
    if source not in source_names(archive.state):
        return _with_drill(facts, archive.store, source) if drills else facts
    facts = replace(facts, restorable_to=covered_ranges(archive.state, source)[-1].end)
    if drills:
        facts = _with_drill(facts, archive.store, source)
    if verification:
        progress = read_progress(archive.store)
        facts = replace(
            facts,
            verified=checked_since(archive.state, progress, source),
            damaged=tuple(damaged_files(archive.state, progress, source)),
        )
    return facts


def _with_drill(facts: Facts, store: ObjectStore, source: str) -> Facts:
    well, failure = drill_standing(store, source)
    facts = replace(facts, drill_failure=failure)
    if well is None:
        return facts
    return replace(facts, drilled=datetime.fromisoformat(well["ended"]), drill_s=well.get("seconds"))


def judge(archive: Archive, sources: Mapping[str, SourceConfig]) -> list[Objective]:
    """Return how the objectives of an archive's sources stand; requests: one, and five a source with all of them.

    :param sources: by name, as in archives.yaml; a source without a backup misses all that it promises.
    """
    now = archive.store.list(IDENTITY_KEY).now
    return [
        each
        for name, source in sources.items()
        for each in judge_facts(name, _needed(archive, name, source.objectives), source.objectives, now)
    ]


def _needed(archive: Archive, source: str, objectives: ObjectivesConfig) -> Facts:
    return facts_of(
        archive,
        source,
        drills=bool(objectives.rto or objectives.drill_within),
        verification=bool(objectives.verified_within),
        key=bool(objectives.key_proved_within),
    )


def restorable_ages(archive: Archive) -> dict[str, timedelta]:
    """Return how old the newest restorable moment of each source is; requests: one."""
    now = archive.store.list(IDENTITY_KEY).now
    return {name: now - covered_ranges(archive.state, name)[-1].end for name in source_names(archive.state)}


def judge_facts(source: str, facts: Facts, objectives: ObjectivesConfig, now: datetime) -> list[Objective]:
    """Return how the objectives of a source stand, by facts that may be older than `now`."""
    judges = {
        "rpo": _rpo,
        "drill_within": _drill_within,
        "rto": _rto,
        "verified_within": _verified_within,
        "key_proved_within": _key_proved_within,
    }
    return [
        Objective(source, name, limit, *judged(facts, limit, now))
        for name, judged in judges.items()
        if (limit := getattr(objectives, name))
    ]


def judge_verification(archive: Archive, source: str, within: str) -> Objective:
    """Return whether every file of a source was read, or written, within a length of time; requests: two.

    :param within: such as `30d`.
    :raises UsageError: it is no length of time.
    """
    now = archive.store.list(IDENTITY_KEY).now
    facts = facts_of(archive, source, drills=False, key=False)
    return Objective(source, "verified_within", within, *_verified_within(facts, within, now))


def _rpo(facts: Facts, limit: str, now: datetime) -> tuple[bool, str]:
    end = facts.restorable_to
    if end is None:
        return False, "there is no backup of it"
    age = now - end
    return age <= parse_span(limit), f"the newest restorable moment is {iso(end)}, {human_span(age)} ago"


def _drill_within(facts: Facts, limit: str, now: datetime) -> tuple[bool, str]:
    if facts.drill_failure:
        return False, f"{NEWEST_DRILL_FAILED}{facts.drill_failure}"
    if facts.drilled is None:
        return False, "no drill of it has gone well"
    age = now - facts.drilled
    return age <= parse_span(limit), f"the last drill went well {human_span(age)} ago"


def _rto(facts: Facts, limit: str, now: datetime) -> tuple[bool, str]:
    if facts.drill_failure:
        return False, f"{NEWEST_DRILL_FAILED}{facts.drill_failure}"
    if facts.drill_s is None:
        return False, "no drill has measured it"
    took = timedelta(seconds=facts.drill_s)
    return took <= parse_span(limit), f"the last drill took {human_span(took)}"


def _verified_within(facts: Facts, limit: str, now: datetime) -> tuple[bool, str]:
    if facts.verified is None:
        return False, "there is no backup of it"
    if facts.damaged:
        return False, f"damaged: {named(facts.damaged)}"
    age = now - facts.verified
    return age <= parse_span(limit), f"every file was read, or written, within {human_span(age)}"


def _key_proved_within(facts: Facts, limit: str, now: datetime) -> tuple[bool, str]:
    if facts.key_proved is None:
        return False, "no drill has had the archive's key from a copy ('holdfast drill --key')"
    age = now - facts.key_proved
    return age <= parse_span(limit), f"a drill had the archive's key from a copy {human_span(age)} ago"


def _told(at: datetime | None) -> str | None:
    return iso(at) if at else None


def _time(told: Any) -> datetime | None:
    return datetime.fromisoformat(told) if told else None
