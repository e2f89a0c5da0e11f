"""Drill: a restore into a server of its own, or a given database, checked by assertions and recorded."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random
from typing import TYPE_CHECKING, Any

from holdfast.archive import Archive
from holdfast.archive.archive import IDENTITY_KEY
from holdfast.archive.format.document import iso
from holdfast.archive.format.runs import RunLog
from holdfast.archive.history.coverage import covered_ranges
from holdfast.archive.history.restore_points import only_source
from holdfast.archive.history.target_resolution import resolve
from holdfast.common.errors import DamagedError
from holdfast.common.lsn import show_position
from holdfast.common.signing import KEY_VARIABLE
from holdfast.common.units import absolute_time, parse_span
from holdfast.config.archives_model import DrillConfig
from holdfast.drill import assertions
from holdfast.drill.history import PREFIX
from holdfast.drill.key_proof import record_proof
from holdfast.drill.servers import DrillServer, sweep
from holdfast.operations.job_process import new_run_id
from holdfast.operations.requests.restore import RestoreRequest
from holdfast.point_in_time.target_contents import catalog_of
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.logical.ddl_triggers import without_event_triggers
from holdfast.postgresql.restore.rights.restricted_login import asking_login

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.archive.format.state import State
    from holdfast.archive.history.coverage import CoveredRange
    from holdfast.archive.history.recovery_target import RecoveryTarget
    from holdfast.operations.requests.drill import DrillRequest
    from holdfast.storage import ObjectStore

Restore = Callable[[Address, RestoreRequest], Mapping[str, Any]]
"""Runs a restore into a database, under its locks, and returns its summary."""

_FROM_RESTORE = (
    *("rows", "tables", "bytes", "restored_to", "position", "commit"),
    *("schema_note", "stale", "lost", "log_only", "unproved_names"),
)
"""Parts of a restore's summary that a drill reports."""


@dataclass
class Drill:
    """A drill of one source of an archive.

    :param request: its key, if any, has opened the store; the drill records that.
    :param settings: of archives.yaml; their assertions count beside the request's.
    :param to: an empty database to restore into; default is a server of its own.
    :param records: for its record; then nothing is written to the archive.
    """

    store: ObjectStore
    request: DrillRequest
    settings: DrillConfig = field(default_factory=DrillConfig)
    to: Address | None = None
    records: ObjectStore | None = None
    say: Callable[[str], None] = field(default=lambda words: None)
    name: str = field(default="", init=False)
    """The source's name, after `prepare`."""

    def prepare(self) -> None:
        """Resolve the source and the recovery target.

        :raises UsageError: there is no such source or target.
        :raises RefusedError: the target cannot be restored.
        :raises DamagedError: a file is damaged; the drill is recorded as failed.
        """
        state = Archive.open(self.store).state
        at, seed = self.request.at, self.request.seed
        self.name = only_source(state, self.request.source, at or "")
        if seed is None:
            seed = secrets.randbits(32)
        self.chosen = absolute_time(at) if at else choose_moment(covered_ranges(state, self.name), seed)
        try:
            moment = resolve(state, self.store, self.name, self.chosen)
        except DamagedError as error:
            RunLog(self.records or self.store, new_run(self.name), "drill").fail(error)
            raise
        by = "" if at else f", chosen by --seed {seed}"
        self.say(f"to restore: {moment.source} as of {iso(moment.at)}, {moment}{by}")
        self._findings = {**_described(moment), "seed": None if at else seed, **self._newest(state)}
        self._moment = moment
        if self.records is None and self.store.signing.only_checks:
            self.say(f"this drill is no evidence: its record is not signed. To sign it, set {KEY_VARIABLE}")

    def run(self, run: str, restore: Restore) -> dict[str, Any]:
        """Run the drill, record it under a name of `new_run`, and return its findings.

        :raises DamagedError: the database differs from the archive, an assertion does not hold, or the newest restore
            point is too old.
        """
        started = time.monotonic()
        with ExitStack() as stack:
            log = RunLog(self.records or self.store, run, "drill")
            stack.push(log)
            log.found = self._findings
            address = self._place(log, stack)
            log.progress("restoring")
            begun = time.monotonic()
            restored = restore(address, self._restore())
            log.found |= {key: restored[key] for key in _FROM_RESTORE if key in restored}
            log.found |= {
                "not_restored": len(restored.get("not_restored", ())),
                "equal": restored.get("equal", False),
                "restore_s": round(time.monotonic() - begun, 3),
                "seconds": round(time.monotonic() - started, 3),
            }
            log.progress("checking assertions")
            self._check(address, log.found)
            self._check_age(log.found)
            log.result = log.found
        if self.request.key and self.records is None:
            record_proof(self.store, run)
        return log.result

    def _newest(self, state: State) -> dict[str, Any]:
        newest = whole_intervals(covered_ranges(state, self.name))[-1].end
        age = self.store.list(IDENTITY_KEY).now - newest
        return {"newest": iso(newest), "age_s": round(max(0.0, age.total_seconds()), 3)}

    def _place(self, log: RunLog, stack: ExitStack) -> Address:
        if self.to is not None:
            return self.to
        log.progress("starting a server")
        for folder in sweep():
            self.say(f"removed files of a killed drill: {folder}")
        major = int(self._moment.full.head.source.version) // 10000
        server = DrillServer(at_least=major, encoding=catalog_of(self.store, self._moment).encoding)
        stack.callback(server.stop)
        server.start()
        if self.request.keep_server:
            self.say(f"the server stays: {server.keep()}")
        return server.address

    def _restore(self) -> RestoreRequest:
        return RestoreRequest(
            source=self.name,
            at=self.chosen,
            roles="check" if self.to else "harmless",
            trust_source=self.request.trust_source,
            no_lock=self.records is not None,
        )

    def _check(self, address: Address, findings: dict[str, Any]) -> None:
        asserted = [*self.settings.of(self.name), *self.request.assertions]
        trusts = not asserted or (self.to and self.request.trust_source)
        address = without_event_triggers(address)
        # Assertions may use views and functions of the source.
        with nullcontext(address) if trusts else asking_login(address) as asking:
            checked = assertions.check(without_event_triggers(asking), asserted)
        findings["assertions"] = [each.describe() for each in checked]
        failed = [each for each in checked if not each.holds]
        if failed:
            raise DamagedError(
                f"{len(failed)} of {len(checked)} assertions do not hold in {self.name} as of {findings['at']}, which "
                f"equals the archive: {'; '.join(map(str, failed))}"
            )

    def _check_age(self, findings: Mapping[str, Any]) -> None:
        """Refuse an old newest restore point: a whole archive may have got no backup for days."""
        age = timedelta(seconds=round(findings["age_s"]))
        within = self.request.newest_within or self.settings.newest_within
        if within and age > parse_span(within):
            raise DamagedError(
                f"the newest restorable moment of {self.name}, {findings['newest']}, is {age} old; the limit is "
                f"{parse_span(within)}: check why there is no later backup ('holdfast points' shows gaps)"
            )


def new_run(source: str) -> str:
    """Return a unique name for the record of a drill."""
    return new_run_id(f"{PREFIX}{source}")


def _described(moment: RecoveryTarget) -> dict[str, Any]:
    return {
        "source": moment.source,
        "at": iso(moment.at),
        "position": show_position(moment.position),
        "commit": moment.commit,
        "equal": False,
    }


_STEP = timedelta(microseconds=1)


def whole_intervals(intervals: Sequence[CoveredRange]) -> list[CoveredRange]:
    """Return the intervals of the whole database, or all if only chosen tables were backed up."""
    return [interval for interval in intervals if interval.whole] or list(intervals)


def choose_moment(intervals: Sequence[CoveredRange], seed: int) -> str:
    """Return a random recovery target: every microsecond of the intervals, or full backup, is equally likely.

    :param intervals: of one source; at least one.
    """
    random = Random(seed)  # noqa: S311 - guessing it is no gain
    whole = whole_intervals(intervals)
    lengths = [(interval.end - interval.start) // _STEP for interval in whole]
    if not any(lengths):
        return f"commit:{random.choice(whole).placed.number}"
    steps = random.randrange(sum(lengths))
    for interval, length in zip(whole, lengths, strict=True):
        if steps < length:
            return iso(interval.start + steps * _STEP)
        steps -= length
    raise AssertionError("there are no more steps than the sum of all lengths")
