"""CPU and memory of each part of an Airflow: its processes, and those that they have started."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PARTS = ("scheduler", "dag-processor", "api-server", "triggerer")
"""Commands of `airflow`; tasks belong to the scheduler, since its executor forks them."""

ABOVE = "standalone"
"""The process above the parts."""


@dataclass(frozen=True)
class Taken:
    """CPU and memory of one part.

    :param cpu_s: CPU seconds, user and system, also of processes that have ended and were waited for.
    :param memory: bytes; of memory that processes share, each has its part (PSS).
    """

    cpu_s: float
    memory: int


def taken(pid: int) -> Mapping[str, Taken]:
    """Return what each part has taken by now, and `ABOVE` what is above them.

    :param pid: of the process above all of them.
    """
    cpu: dict[str, float] = {}
    memory: dict[str, int] = {}
    for part, process in _processes(psutil.Process(pid), ABOVE):
        with suppress(psutil.NoSuchProcess):
            used = process.cpu_times()
            spent = used.user + used.system
            cpu[part] = cpu.get(part, 0.0) + spent + used.children_user + used.children_system
            memory[part] = memory.get(part, 0) + process.memory_full_info().pss
    return {part: Taken(cpu[part], memory.get(part, 0)) for part in cpu}


def _processes(process: psutil.Process, part: str) -> Iterator[tuple[str, psutil.Process]]:
    with suppress(psutil.NoSuchProcess):
        if part == ABOVE:
            part = part_of(process.cmdline())
        yield part, process
        for child in process.children():
            yield from _processes(child, part)


def part_of(command: list[str]) -> str:
    """Return which part of Airflow a command line starts; `ABOVE`: none."""
    words = " ".join(command).replace("_", "-").split()
    return next((each for each in PARTS if each in words), ABOVE)
