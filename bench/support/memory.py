"""The most memory that each Spark worker process held, as the kernel counts it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from demo.supervisor import descendants

MIB = 1 << 20
_DAEMON = "sparkjobs.executors.daemon"
_PROC = Path("/proc")


@dataclass
class WorkerMemory:
    """Follows the workers below a process; call it again and again while that runs.

    The kernel keeps the high-water mark of a process itself (VmHWM, proc(5)), so no peak between two
    looks is missed, but for the time between the last look and a worker's end.

    :param peaks: bytes by process id.
    """

    proc: Path = _PROC
    peaks: dict[int, int] = field(default_factory=dict)

    def __call__(self, ancestor: int) -> None:
        """Look at all workers below a process."""
        for pid in descendants(ancestor):
            if is_worker(pid, self.proc) and (peak := peak_bytes(pid, self.proc)):
                self.peaks[pid] = max(peak, self.peaks.get(pid, 0))

    @property
    def most(self) -> int:
        """The most that any worker held, in bytes; 0 before one was seen."""
        return max(self.peaks.values(), default=0)


@dataclass
class DriverMemory:
    """Follows the Python process of a job's driver in the same way; its Java is Spark's own.

    :param application: the file of the job.
    """

    application: str
    proc: Path = _PROC
    most: int = 0

    def __call__(self, ancestor: int) -> None:
        """Look at the driver below a process."""
        for pid in descendants(ancestor):
            words = _read(self.proc / str(pid) / "cmdline").split("\0")
            if "python" in words[0] and any(word.endswith(self.application) for word in words[1:3]):
                self.most = max(self.most, peak_bytes(pid, self.proc) or 0)


def peak_bytes(pid: int, proc: Path = _PROC) -> int | None:
    """Return the greatest resident set a process has had, or None if it is gone."""
    found = re.search(r"^VmHWM:\s+(\d+) kB", _read(proc / str(pid) / "status"), re.MULTILINE)
    return int(found.group(1)) * 1024 if found else None


def is_worker(pid: int, proc: Path = _PROC) -> bool:
    """Say whether a process runs tasks: Spark's daemon forks one for each task that runs at a time."""
    if _DAEMON not in _read(proc / str(pid) / "cmdline"):
        return False
    parent = re.search(r"^PPid:\s+(\d+)", _read(proc / str(pid) / "status"), re.MULTILINE)
    return parent is not None and _DAEMON in _read(proc / parent.group(1) / "cmdline")


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def limit_bytes(largest_value: int) -> int:
    """Return what a worker may hold: 600 MB, plus four times the largest value, in bytes."""
    return 600 * 10**6 + 4 * largest_value


@dataclass(frozen=True)
class Memory:
    """The most that one Spark worker held, in bytes.

    :param largest_value: of the table, which the limit depends on; 0 where values are small.
    """

    what: str
    peak: int
    largest_value: int

    @property
    def limit(self) -> int:
        """Return what it may hold, in bytes."""
        return limit_bytes(self.largest_value)

    @property
    def reached(self) -> bool:
        """Say whether it stayed within."""
        return self.peak < self.limit
