"""Holdfast itself, as people run it: the command; its steps are learnt from the run's own records."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench.support.jdbc.spark_jdbc import spark_environment
from bench.support.processes import run
from holdfast.archive.format.runs import RunRecord
from holdfast.storage import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from holdfast.postgresql.connection.server import PostgresServer


@dataclass(frozen=True)
class Measured:
    """One backup or restore.

    :param whole: seconds of the command, from start to end.
    :param records: what the job said while it ran, in its order.
    """

    whole: float
    rows: int
    stored: int
    records: tuple[RunRecord, ...]

    @property
    def job(self) -> float:
        """Return the seconds of the job's work in a Spark that had started, to its commit or last comparison."""
        return working_seconds(self.records)

    def between(self, step: str, until: str) -> float:
        """Return the seconds from the beginning of one step to that of another."""
        begins = beginnings(self.records)
        return begins[until] - begins[step]


def beginnings(records: Iterable[RunRecord]) -> dict[str, float]:
    """Return when each step began, in seconds since the job's first record.

    A step that Spark tasks work on has its first record up to a second late; all others when they begin.
    """
    begins: dict[str, float] = {}
    for record in records:
        begins.setdefault(record.step, record.elapsed_s)
    return begins


def working_seconds(records: Sequence[RunRecord]) -> float:
    """Return how long a job worked once Spark had started.

    Its result says how long it took, start of Spark included, but not its end.

    :raises ValueError: it did not end well.
    """
    result = records[-1].result if records else None
    if result is None:
        raise ValueError("the run has no result")
    first, second = list(beginnings(records).values())[:2]  # "starting", and what came after it
    return float(result["seconds"]) - (second - first)


class HoldfastCommand:
    """Runs the command against one server.

    :param key: address of the key of its archives; None where they are not encrypted.
    """

    def __init__(self, server: PostgresServer, key: str | None = None) -> None:
        self._server = server
        self._key = key

    def init(self, archive: Path) -> None:
        """Create an archive."""
        run([*_command("init"), str(archive)], self._environment())

    def backup(
        self, archive: Path, database: str, watch: Callable[[int], None] | None = None, *, kind: str = "full"
    ) -> Measured:
        """Back up a database.

        :param watch: see `bench.support.processes.run`.
        :param kind: `full`, or `changes`, the first of which is a full one that begins the stream.
        """
        return self._run("backup", archive, ["--source", self._server.url(database), "--kind", kind], watch)

    def restore(self, archive: Path, database: str, watch: Callable[[int], None] | None = None) -> Measured:
        """Restore the newest backup into an empty database."""
        return self._run("restore", archive, ["--to", self._server.url(database)], watch)

    def _run(
        self, operation: str, archive: Path, arguments: list[str], watch: Callable[[int], None] | None
    ) -> Measured:
        before = {record.run for record in self._records(archive)}
        done = run(
            [*_command(operation), str(archive), "--json", *arguments],
            {**self._environment(), "PGPASSWORD": self._server.password},
            watch=watch,
        )
        result = json.loads(done.output)
        records = tuple(record for record in self._records(archive) if record.run not in before)
        return Measured(done.seconds, result["rows"], result["bytes"], records)

    def _environment(self) -> dict[str, str]:
        return {**spark_environment(), **({"HOLDFAST_KEY": self._key} if self._key else {})}

    def _records(self, archive: Path) -> list[RunRecord]:
        store = open_store(str(archive), self._key)
        return [RunRecord.from_bytes(store.get(found.key), found.key) for found in store.list("runs/").objects]


def _command(name: str) -> list[str]:
    return [str(Path(sys.executable).with_name("holdfast")), name]
