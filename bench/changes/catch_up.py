"""A backup of many changes that have waited: what its processes hold, and what is on the source's disk meanwhile."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.changes.source_disk import SourceDisk
from bench.changes.streams import ChangeStream
from bench.support.memory import DriverMemory, Memory, WorkerMemory
from sparkjobs.driver.log_windows import WINDOW_BYTES, WINDOWS_AT_ONCE

if TYPE_CHECKING:
    from pathlib import Path

    from bench.support.holdfast_command import HoldfastCommand
    from holdfast.postgresql.connection.server import PostgresServer


@dataclass(frozen=True)
class CaughtUp:
    """What was seen.

    :param seconds: of the job.
    :param wal: bytes of the log that it read.
    :param commits: how many it made.
    :param disk: bytes of the source's temporary files, at most.
    """

    rows: int
    seconds: float
    wal: int
    commits: int
    disk: int
    memory: tuple[Memory, ...]

    @property
    def most_disk(self) -> int:
        """Return what may be on the source's disk: as much as the log of the windows that are read at a time."""
        return WINDOWS_AT_ONCE * WINDOW_BYTES

    @property
    def missed(self) -> list[str]:
        """Return what was not reached, in words."""
        found = [f"memory of {each.what}" for each in self.memory if not each.reached]
        return found if self.disk <= self.most_disk else [*found, "the source's temporary disk"]


def measure(server: PostgresServer, command: HoldfastCommand, folder: Path, rows: int) -> CaughtUp:
    """Let changes pile up, and back them up."""
    if server.folder is None:
        raise ValueError("the server does not run")
    worker, driver, disk = WorkerMemory(), DriverMemory("backup.py"), SourceDisk(server.folder / "data")

    def watch(pid: int) -> None:
        for look in (worker, driver, disk):
            look(pid)

    with ChangeStream(server, command, folder, rows) as stream:
        done = stream.back_up(watch)
        wal = stream.wal
    shutil.rmtree(folder)
    return CaughtUp(
        rows=rows,
        seconds=done.job,
        wal=wal,
        commits=int((done.records[-1].result or {})["commits"]),
        disk=disk.most,
        memory=(
            Memory(f"the worker, {rows:,} changes", worker.most, 0),
            Memory(f"the driver's Python, {rows:,} changes", driver.most, 0),
        ),
    )
