"""Findings on a Spark cluster: what its settings, its workers and their answers say, with a remedy where it fails."""

from __future__ import annotations

import platform
from collections import Counter
from dataclasses import dataclass, field
from importlib import metadata
from typing import TYPE_CHECKING

import holdfast
from holdfast.common.doctor_finding import DoctorFinding
from holdfast.common.words import human_size

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sparkjobs.executors.survey import WorkerFacts, WorkerSurvey

    Key = tuple[str, str]
    """Names an executor: its host, and the folder of its own files."""

LEAST_FREE = 1 << 30
"""Bytes that tasks may need for rows that they sort, and Spark for its own files."""

CLOCK_TOLERANCE_S = 3.0
"""Seconds that a clock may differ, beside what the measurement leaves open."""

_GUARDS = (
    ("authentication", ("spark.authenticate",)),
    ("encryption", ("spark.network.crypto.enabled", "spark.io.encryption.enabled")),
)


@dataclass
class ClusterFindings:
    """Findings of surveys of a cluster.

    :param settings: of Spark, as they are in force.
    """

    settings: Mapping[str, str]
    _surveys: list[tuple[str, WorkerSurvey]] = field(default_factory=list)

    def add(self, what: str, survey: WorkerSurvey) -> None:
        """Add the answers to a question.

        :param what: its subject, for workers that could not answer it; "" where there was no question.
        """
        self._surveys.append((what, survey))

    @property
    def is_whole(self) -> bool:
        """Return whether each executor has had each question: some come late, or go."""
        asked = [survey.workers.keys() for _, survey in self._surveys]
        return all(workers == asked[0] for workers in asked) and len(asked[0]) == self._expected

    @property
    def _expected(self) -> int:
        return max((survey.expected for _, survey in self._surveys), default=0)

    def findings(self) -> Iterator[DoctorFinding]:
        yield self._executors()
        yield from (_guard(what, names, self.settings) for what, names in _GUARDS)
        for key, name in sorted(self._names().items(), key=lambda each: each[1]):
            for finding in self._of_worker(key):
                yield DoctorFinding(f"worker {name}: {finding.what}", finding.found, finding.remedy)

    def _workers(self) -> dict[Key, WorkerFacts]:
        return {key: facts for _, survey in reversed(self._surveys) for key, facts in survey.workers.items()}

    def _names(self) -> dict[Key, str]:
        """Return the names of executors: their hosts, with numbers where one has several."""
        hosts, seen = Counter(host for host, _ in self._workers()), Counter[str]()
        names = {}
        for key in sorted(self._workers()):
            seen[key[0]] += 1
            names[key] = key[0] if hosts[key[0]] == 1 else f"{key[0]} #{seen[key[0]]}"
        return names

    def _executors(self) -> DoctorFinding:
        answered = self._workers()
        hosts = sorted({host for host, _ in answered})
        found = f"{self.settings.get('spark.master', '')}, {len(answered)} of {self._expected} executors answered"
        found += f" (on {', '.join(hosts)})"
        remedy = "" if len(answered) >= self._expected else "try again; the logs of those that do not answer say more"
        return DoctorFinding("cluster", found, remedy)

    def _of_worker(self, key: Key) -> Iterator[DoctorFinding]:
        facts = self._workers()[key]
        yield _release(facts)
        yield _disk(facts)
        yield _folder(facts)
        for what, survey in (each for each in self._surveys if each[0]):
            if (reply := survey.workers.get(key)) is None:
                yield DoctorFinding(what, "was not asked", "this executor came or went meanwhile: try again")
            elif reply.error:
                yield DoctorFinding(what, "could not be tried", reply.error)
            else:
                yield from reply.answers or ()  # a worker of another release is not asked
        clocks = [survey.clocks[key] for _, survey in self._surveys if key in survey.clocks]
        yield clock("clock", *min(clocks, key=lambda each: each[1]), other="this machine's")


def clock(what: str, ahead: float, unsure: float, *, other: str) -> DoctorFinding:
    """Return the finding on a clock.

    :param ahead: seconds that it is ahead of another one, give or take `unsure`.
    """
    found = f"{abs(ahead):.1f} s {'ahead of' if ahead >= 0 else 'behind'} {other}, give or take {unsure:.1f} s"
    if abs(ahead) - unsure <= CLOCK_TOLERANCE_S:
        return DoctorFinding(what, found)
    return DoctorFinding(
        what, found, "let all machines take the time from NTP: stores refuse requests of another time, and logs mislead"
    )


def _guard(what: str, names: tuple[str, ...], settings: Mapping[str, str]) -> DoctorFinding:
    found = ", ".join(f"{name} {settings.get(name, 'false')}" for name in names)
    off = [name for name in names if settings.get(name) != "true"]
    remedy = f"set {' and '.join(off)} to true: tasks hold passwords and credentials (docs/cluster.md)" if off else ""
    return DoctorFinding(what, found, remedy)


def _release(facts: WorkerFacts) -> DoctorFinding:
    here = {
        "Holdfast": (holdfast.__version__, facts.release),
        "Python": (platform.python_version(), facts.python),
        "pyarrow": (metadata.version("pyarrow"), facts.pyarrow),
    }
    found = ", ".join(f"{name} {there or 'missing'}" for name, (_, there) in here.items())
    other = [
        f"{name} {there or 'is missing'} there and {own} here"
        for name, (own, there) in here.items()
        if _significant(name, own) != _significant(name, there)
    ]
    if not other:
        return DoctorFinding("release", found)
    return DoctorFinding(
        "release",
        found,
        f"{', '.join(other)}: install the same on all machines (its Python is in {facts.prefix}; spark.pyspark.python "
        "says another)",
    )


def _significant(name: str, version: str) -> str:
    return version.rpartition(".")[0] if name == "Python" else version


def _disk(facts: WorkerFacts) -> DoctorFinding:
    found = ", ".join(f"{human_size(free)} free in {folder}" for folder, free in facts.free.items())
    if full := [folder for folder, free in facts.free.items() if free < LEAST_FREE]:
        return DoctorFinding(
            "disk",
            found,
            f"less than {human_size(LEAST_FREE)} is left in {' and '.join(full)}: free some, or set SPARK_LOCAL_DIRS "
            "and TMPDIR of the worker to a folder with more room",
        )
    return DoctorFinding("disk", found)


def _folder(facts: WorkerFacts) -> DoctorFinding:
    if facts.closed:
        return DoctorFinding("folder", f"{facts.closed} is open to its owner alone")
    return DoctorFinding(
        "folder",
        f"{facts.folder or 'unknown'} is open to others",
        "set SPARK_LOCAL_DIRS of the worker to a folder of mode 0700: Spark keeps what it spills there",
    )
