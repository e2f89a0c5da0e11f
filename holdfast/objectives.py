"""Objectives of sources, judged by an archive's own records: Airflow may be down."""

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
"""Begin of an objective's clause for a failed drill; its reason follows."""


@dataclass(frozen=True)
class Objective:
    """One objective of a source, with name and limit as in archives.yaml; `stands` is a clause on its state."""

    source: str
    name: str
    limit: str
    is_met: bool
    stands: str

    def describe(self) -> dict[str, Any]:
        """Return the objective as `--json` prints it."""
        return asdict(self)

    def __str__(self) -> str:
        return f"{self.source}: {self.name} {self.limit} is {'kept' if self.is_met else 'missed'}: {self.stands}"


@dataclass(frozen=True)
class Facts:
    """Facts of a source for its objectives; all times are by the store's clock.

    :param restorable_to: the newest restorable time, if there is a backup.
    :param drilled: the end of the last successful drill; `drill_s`: its seconds up to a usable database.
    :param drill_failure: why the newest drill failed, if it did.
    :param verified: every file was read, or written, after this.
    :param damaged: files that a verification found damaged.
    :param key_proved: the last drill with a copy of the archive's key.
    """

    restorable_to: datetime | None = None
    drilled: datetime | None = None
    drill_failure: str = ""
    drill_s: float | None = None
    verified: datetime | None = None
    damaged: tuple[str, ...] = ()
    key_proved: datetime | None = None

    def describe(self) -> dict[str, Any]:
        """Return the facts as JSON, which `from_described` reads."""
        return {
            "restorable_to": _iso(self.restorable_to),
            "drilled": _iso(self.drilled),
            "drill_failure": self.drill_failure,
            "drill_s": self.drill_s,
            "verified": _iso(self.verified),
            "damaged": list(self.damaged),
            "key_proved": _iso(self.key_proved),
        }

    @classmethod
    def from_described(cls, value: Mapping[str, Any]) -> Facts:
        """Return the facts that `describe` gave."""
        times = {key: _time(value.get(key)) for key in ("restorable_to", "drilled", "verified", "key_proved")}
        failure, damaged = value.get("drill_failure", ""), tuple(value.get("damaged", ()))
        return cls(drill_s=value.get("drill_s"), drill_failure=failure, damaged=damaged, **times)


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
    good, failure = drill_standing(store, source)
    facts = replace(facts, drill_failure=failure)
    if good is None:
        return facts
    return replace(facts, drilled=datetime.fromisoformat(good["ended"]), drill_s=good.get("seconds"))


def judge(archive: Archive, sources: Mapping[str, SourceConfig]) -> list[Objective]:
    """Return the objectives of an archive's sources; requests: one, and five a source with all of them.

    A source without a backup misses all.
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
    """Return the age of the newest restorable time of each source; requests: one."""
    now = archive.store.list(IDENTITY_KEY).now
    return {name: now - covered_ranges(archive.state, name)[-1].end for name in source_names(archive.state)}


def judge_facts(source: str, facts: Facts, objectives: ObjectivesConfig, now: datetime) -> list[Objective]:
    """Return the objectives of a source, judged by facts that may be older than `now`."""
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
    """Return whether every file of a source was read, or written, within a time such as `30d`; requests: two."""
    now = archive.store.list(IDENTITY_KEY).now
    facts = facts_of(archive, source, drills=False, key=False)
    return Objective(source, "verified_within", within, *_verified_within(facts, within, now))


def _age(at: datetime | None, limit: str, now: datetime, *, none: str, words: str) -> tuple[bool, str]:
    """Judge the age of a time by its limit; `words` has a place for the time and one for the age."""
    if at is None:
        return False, none
    return now - at <= parse_span(limit), words.format(at=iso(at), age=human_span(now - at))


def _rpo(facts: Facts, limit: str, now: datetime) -> tuple[bool, str]:
    words = "the newest restorable moment is {at}, {age} ago"
    return _age(facts.restorable_to, limit, now, none="there is no backup of it", words=words)


def _drill_within(facts: Facts, limit: str, now: datetime) -> tuple[bool, str]:
    if facts.drill_failure:
        return False, f"{NEWEST_DRILL_FAILED}{facts.drill_failure}"
    return _age(
        facts.drilled, limit, now, none="no drill of it has gone well", words="the last drill went well {age} ago"
    )


def _rto(facts: Facts, limit: str, now: datetime) -> tuple[bool, str]:
    if facts.drill_failure:
        return False, f"{NEWEST_DRILL_FAILED}{facts.drill_failure}"
    if facts.drill_s is None:
        return False, "no drill has measured it"
    took = timedelta(seconds=facts.drill_s)
    return took <= parse_span(limit), f"the last drill took {human_span(took)}"


def _verified_within(facts: Facts, limit: str, now: datetime) -> tuple[bool, str]:
    if facts.verified and facts.damaged:
        return False, f"damaged: {named(facts.damaged)}"
    words = "every file was read, or written, within {age}"
    return _age(facts.verified, limit, now, none="there is no backup of it", words=words)


def _key_proved_within(facts: Facts, limit: str, now: datetime) -> tuple[bool, str]:
    none = "no drill has had the archive's key from a copy ('holdfast drill --key')"
    return _age(facts.key_proved, limit, now, none=none, words="a drill had the archive's key from a copy {age} ago")


def _iso(at: datetime | None) -> str | None:
    return iso(at) if at else None


def _time(text: Any) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
