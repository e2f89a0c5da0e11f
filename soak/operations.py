"""What the stand-in schedulers start: kinds of operations, how often each comes, and its command line."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from soak.servers import REPLICAS, SOURCES

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Sequence

KEPT = 8
"""Restore points of each source that every truncation leaves."""

SPARK_SHARE = 0.12
"""Of operations that may, so many are forced onto Spark."""

CLOCK_SHARE = 0.15
"""Of operations without Spark, so many run with a clock that is wrong."""

WRONG_CLOCK_S = 120
"""By as much, at most: an S3 server refuses requests from clocks that are wrong by a quarter of an hour."""

ON_SPARK = frozenset({"backup full", "backup changes", "restore", "verify deep", "compact"})


@dataclass(frozen=True)
class Operation:
    """One operation.

    :param words: the arguments of `holdfast`; `{target}` stands for an empty database of the target server.
    :param moment: what a restore or a query asks for, in seconds since 1970; None where it asks for none.
    :param point: the operation whose `restorable_to` that is, or "".
    :param variables: added to its environment.
    """

    kind: str
    words: tuple[str, ...]
    replica: str = ""
    source: str = ""
    moment: float | None = None
    point: str = ""
    sequential: bool = False
    variables: dict[str, str] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Return it for the journal and for the process that runs it."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Operation:
        """Read what `as_json` wrote."""
        return cls(**{**value, "words": tuple(value["words"])})


@dataclass(frozen=True)
class Acknowledged:
    """A backup that was reported as done.

    :param operation: its id.
    :param restorable_to: as it was told.
    """

    operation: str
    source: str
    restorable_to: str

    @property
    def at(self) -> float:
        """Return the moment in seconds since 1970."""
        return datetime.fromisoformat(self.restorable_to).timestamp()


class Choice:
    """Draws operations.

    :param clock: the library that makes a process's clock wrong; "" where there is none.
    """

    def __init__(self, drawn: random.Random, *, clock: str = "", backups: Sequence[Acknowledged] = ()) -> None:
        self._random = drawn
        self._clock = clock
        self.backups = list(backups)

    def next(self) -> Operation:
        """Draw the next one."""
        made = self._random.choices([each for each, _ in _CHOICES], [share for _, share in _CHOICES])[0](self)
        if made.kind in ON_SPARK and self._random.random() < SPARK_SHARE:
            return replace(made, variables={"HOLDFAST_EXECUTOR": "spark"})
        inline = {"HOLDFAST_EXECUTOR": "inline"}
        if self._clock and self._random.random() < CLOCK_SHARE:
            jump = f"{self._random.randint(-WRONG_CLOCK_S, WRONG_CLOCK_S)} {self._random.uniform(0, 8):.1f}"
            inline |= {"LD_PRELOAD": self._clock, "SOAK_CLOCK": jump}
        return replace(made, variables=inline)

    def _replica(self) -> str:
        return self._random.choice(REPLICAS)

    def _url(self, replica: str) -> str:
        return f"s3://{replica}/soak"

    def _wait(self) -> tuple[str, str]:
        return "--wait", self._random.choice(("0", "20", "60"))

    def _backup(self, kind: str) -> Operation:
        replica, source = self._replica(), self._random.choice(SOURCES)
        words = ("backup", self._url(replica), "--source", source, "--kind", kind, "--json", *self._wait())
        return Operation(f"backup {kind}", words, replica, source)

    def backup_full(self) -> Operation:
        """Back up all rows."""
        return self._backup("full")

    def backup_changes(self) -> Operation:
        """Back up what has changed."""
        return self._backup("changes")

    def on_replica(self, kind: str, *words: str, waits: bool = True) -> Operation:
        """Do something to one replica."""
        replica = self._replica()
        first, *more = words
        wait = self._wait() if waits else ()
        return Operation(kind, (*first.split(), self._url(replica), *more, "--json", *wait), replica)

    def on_log(self, kind: str, *words: str, waits: bool = True) -> Operation:
        """Do something to the log of all replicas."""
        return Operation(kind, ("replica", *words, "--json", *(self._wait() if waits else ())))

    def _moment(self) -> tuple[str, str, float, str] | None:
        """Draw a source, and a moment that can be restored: that of a backup, or one between two of them."""
        source = self._random.choice(SOURCES)
        of_it = [backup for backup in self.backups if backup.source == source][-KEPT:]
        if not of_it:
            return None
        backup = of_it[-1] if self._random.random() < 0.4 else self._random.choice(of_it)
        if self._random.random() < 0.7:
            return source, backup.restorable_to, backup.at, backup.operation
        between = self._random.uniform(of_it[0].at, of_it[-1].at)
        return source, datetime.fromtimestamp(between, UTC).isoformat(), between, ""

    def restore(self) -> Operation:
        """Restore a moment into an empty database."""
        moment = self._moment()
        if moment is None:
            return self.backup_full()
        source, at, seconds, point = moment
        sequential = self._random.random() < 0.5
        replica = "" if sequential else self._replica()
        where = ("soak", "--consistency", "sequential") if sequential else (self._url(replica),)
        words = ("restore", *where, "--source", source, "--to", "{target}", "--at", at, "--json", *self._wait())
        return Operation("restore", words, replica, source, seconds, point, sequential)

    def query(self) -> Operation:
        """Ask an archive for the turns of a moment."""
        moment = self._moment()
        if moment is None:
            return self.backup_changes()
        source, at, seconds, point = moment
        replica = self._replica()
        sql = "select lane, turn from lane_turn order by lane"
        words = ("query", self._url(replica), sql, "--source", source, "--at", at, "--json", *self._wait())
        return Operation("query", words, replica, source, seconds, point)

    def drill(self) -> Operation:
        """Prove that a random moment can be restored."""
        replica, source = self._replica(), self._random.choice(SOURCES)
        return Operation("drill", ("drill", self._url(replica), "--source", source, "--json"), replica, source)

    def hold(self) -> Operation:
        """Hold the moment of a backup."""
        moment = self._moment()
        if moment is None:
            return self.backup_changes()
        source, at, *_ = moment
        replica = self._replica()
        words = ("hold", "add", self._url(replica), "--source", source, "--at", at, "--reason", "soak", "--json")
        return Operation("hold add", words, replica, source)

    def mark(self) -> Operation:
        """Name a moment."""
        replica, source = self._replica(), self._random.choice(SOURCES)
        name = f"mark {time.time():.3f}"
        return Operation("mark", ("mark", self._url(replica), name, "--source", source, "--json"), replica, source)


_CHOICES: tuple[tuple[Callable[[Choice], Operation], float], ...] = (
    (Choice.backup_changes, 14),
    (Choice.backup_full, 4),
    (Choice.restore, 9),
    (Choice.query, 5),
    (lambda choice: choice.on_log("replica sync", "sync", "--all"), 8),
    (lambda choice: choice.on_log("replica trim", "trim", "--min-keep", "5", "--max-keep", "60", waits=False), 2),
    (lambda choice: choice.on_log("replica recover", "recover", "--lost"), 2),
    (lambda choice: choice.on_replica("compact", "compact"), 3),
    (lambda choice: choice.on_replica("compact consolidate", "compact", "--consolidate"), 1),
    (lambda choice: choice.on_replica("truncate", "truncate", "--keep", f"last={KEPT}"), 3),
    (lambda choice: choice.on_replica("vacuum", "vacuum", "--grace", "1h"), 2),
    (lambda choice: choice.on_replica("vacuum at once", "vacuum", "--grace", "0h"), 2),
    (lambda choice: choice.on_replica("verify", "verify"), 3),
    (lambda choice: choice.on_replica("verify deep", "verify", "--deep"), 2),
    (lambda choice: choice.on_replica("locks reap", "locks reap", waits=False), 2),
    (lambda choice: choice.on_replica("points", "points", waits=False), 2),
    (Choice.drill, 2),
    (Choice.hold, 1),
    (Choice.mark, 1),
)
