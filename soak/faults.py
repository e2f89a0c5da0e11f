"""What goes wrong: one fault after the other, drawn, each for some seconds, and all of it mended before a calm."""

from __future__ import annotations

import os
import shutil
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.support.faults.disk import leave_room, resize
from bench.support.faults.link import Cut, Moment
from demo.supervisor import descendants
from soak.journal import named, read
from soak.servers import DISK, REPLICAS, crash
from soak.store_proxy import CALM, Weather

if TYPE_CHECKING:
    import random
    from collections.abc import Callable
    from pathlib import Path

    from soak.journal import Journal
    from soak.servers import Servers

SHORT_S = (0.5, 15.0)
LONG_S = (185.0, 215.0)
"""A lock's lease is 120 s, its grace 60 s: who is stopped for so long has lost what it held."""

WRONG_STORE_CLOCK_S = 30.0
"""By as much a store's clock may jump without a lock being lost: less than the grace."""

_WEATHERS = {
    "store answers 503": Weather(busy=0.3),
    "store cuts connections": Weather(cut=0.05, lost=0.05, torn=0.03),
    "store is slow": Weather(slow=0.5, pause=2.0),
    "store does all of that": Weather(busy=0.1, cut=0.03, lost=0.03, torn=0.02, slow=0.2, pause=1.0),
    "store is cut off": Weather(cut=1.0),
}
_MOMENTS: tuple[Moment, ...] = ("now", "request", "answer", "late")


@dataclass(frozen=True)
class _Due:
    """Something that is to be done at a time, or sooner where all is mended and it can be early."""

    at: float
    act: Callable[[], None]
    can_be_early: bool = True


class Faults:
    """Draws faults, and mends them.

    :param restart_scheduler: kills a scheduler and starts another.
    :param restart_load: kills the load on a source and starts it again.
    """

    def __init__(
        self,
        servers: Servers,
        journal: Journal,
        drawn: random.Random,
        *,
        restart_scheduler: Callable[[], None],
        restart_load: Callable[[], None],
    ) -> None:
        self._servers = servers
        self._journal = journal
        self._random = drawn
        self._restart_scheduler = restart_scheduler
        self._restart_load = restart_load
        self._due: list[_Due] = []

    def act(self) -> None:
        """Let something go wrong."""
        kinds = [each for each, _ in _KINDS]
        self._random.choices(kinds, [share for _, share in _KINDS])[0](self)

    def tick(self) -> None:
        """Do what is due."""
        now = time.monotonic()
        due = [each for each in self._due if each.at <= now]
        self._due = [each for each in self._due if each.at > now]
        for each in due:
            each.act()

    def mend(self) -> None:
        """Mend everything at once, but for who is suspended past a lease: that ends by itself."""
        due = [each for each in self._due if each.can_be_early]
        self._due = [each for each in self._due if not each.can_be_early]
        for each in due:
            each.act()
        self._servers.proxy.weather = CALM
        for link in (self._servers.to_coordination, self._servers.to_sources):
            link.mend()

    def weather(self) -> None:
        """Let the store fail in one of its ways."""
        name = self._random.choice(list(_WEATHERS))
        self._note(name)
        clock = self._servers.proxy.weather.clock
        weather = _WEATHERS[name]
        self._servers.proxy.weather = Weather(**{**_fields(weather), "clock": clock})
        self._later(self._random.uniform(3, 20), lambda: self._be(CALM, clock))

    def store_clock(self) -> None:
        """Let the store's clock jump, and stay so for a while."""
        self._note("store's clock jumps")
        wrong = self._random.uniform(-WRONG_STORE_CLOCK_S, WRONG_STORE_CLOCK_S)
        self._servers.proxy.set_clock(wrong)
        self._later(self._random.uniform(5, 40), lambda: self._servers.proxy.set_clock(0.0))

    def kill_process(self) -> None:
        """Kill a process of an operation's job, a driver, a worker or Java; the command itself where it has none."""
        chosen = self._chosen()
        if chosen is None:
            return
        identity, command = chosen
        pid = self._random.choice(sorted(descendants(command)) or [command])
        self._kill(identity, command, pid)

    def kill_command(self) -> None:
        """Kill the command of an operation, so that its locks stay and its job loses its parent."""
        chosen = self._chosen()
        if chosen is not None:
            self._kill(*chosen, chosen[1])

    def stop_shortly(self) -> None:
        """Suspend all processes of an operation for some seconds."""
        self._stop("operation suspended", self._random.uniform(*SHORT_S))

    def stop_past_the_lease(self) -> None:
        """Suspend all processes of an operation for longer than lease and grace of its locks; one at a time."""
        if all(each.can_be_early for each in self._due):
            self._stop("operation suspended past its lease", self._random.uniform(*LONG_S))

    def kill_store(self) -> None:
        """Kill the S3 server, and start it again."""
        self._note("S3 server killed")
        self._servers.s3.kill()
        time.sleep(self._random.uniform(0, 4))
        self._servers.s3.start()

    def kill_coordination(self) -> None:
        """Kill the coordination store, and start it again."""
        self._note("coordination store killed")
        crash(self._servers.coordination, self._random.uniform(0, 4))

    def kill_sources(self) -> None:
        """Kill the sources' server, and start it again."""
        self._note("sources' server killed")
        crash(self._servers.sources, self._random.uniform(0, 2))

    def cut_coordination(self) -> None:
        """Cut the way to the coordination store, at a COMMIT or at any time."""
        self._note("way to the coordination store cut")
        self._servers.to_coordination.cut(Cut.drawn(self._random, _MOMENTS))

    def cut_sources(self) -> None:
        """Cut the way to the sources."""
        self._note("way to the sources cut")
        self._servers.to_sources.cut(Cut(self._random.choice(("reset", "closed")), lasting=self._random.uniform(0, 3)))

    def fill_disk(self) -> None:
        """Fill the disk of a replica."""
        disk = self._servers.disk
        if disk is None:
            return
        self._note("disk of a replica full")
        leave_room(disk, self._random.choice((4096, 100_000)))
        self._later(self._random.uniform(5, 20), lambda: resize(disk, int(DISK[:-1]) << 30))

    def kill_scheduler(self) -> None:
        """Kill a scheduler; another one takes its place, and what it had started goes on."""
        self._note("scheduler killed")
        self._restart_scheduler()

    def kill_load(self) -> None:
        """Kill who writes to a source."""
        self._note("client of a source killed")
        self._restart_load()

    def empty_replica(self) -> str:
        """Delete everything of a replica; return its name."""
        name = self._random.choice(REPLICAS)
        self._note("replica emptied")
        shutil.rmtree(self._servers.s3.folder / name / "soak", ignore_errors=True)
        return name

    def clear_place(self, name: str) -> None:
        """Delete what operations have written where a replica was, unless there is an archive again."""
        place = self._servers.s3.folder / name / "soak"
        if not (place / "archive.json").exists():
            shutil.rmtree(place, ignore_errors=True)

    def _be(self, weather: Weather, clock: float) -> None:
        self._servers.proxy.weather = weather
        self._servers.proxy.set_clock(clock)

    def _later(self, seconds: float, act: Callable[[], None], *, can_be_early: bool = True) -> None:
        self._due.append(_Due(time.monotonic() + seconds, act, can_be_early))

    def _note(self, kind: str, **more: object) -> None:
        self._journal.write("fault", kind=kind, **more)

    def _chosen(self) -> tuple[str, int] | None:
        """Choose an operation that runs: its id and the process of its command."""
        running = running_operations(self._servers.folder)
        return self._random.choice(sorted(running.items())) if running else None

    def _kill(self, identity: str, command: int, pid: int) -> None:
        with suppress(ProcessLookupError):
            words = _role(pid, command)
            self._journal.write("killed", id=identity, pid=pid, command=pid == command)
            self._note(f"{words} killed")
            os.kill(pid, signal.SIGKILL)

    def _stop(self, kind: str, seconds: float) -> None:
        chosen = self._chosen()
        if chosen is None:
            return
        identity, command = chosen
        pids = [command, *descendants(command)]
        self._note(kind, id=identity)
        _signal(pids, signal.SIGSTOP)
        self._later(seconds, lambda: self._continue(pids), can_be_early=seconds < LONG_S[0])

    def _continue(self, pids: list[int]) -> None:
        _signal(pids, signal.SIGCONT)


def running_operations(folder: Path) -> dict[str, int]:
    """Return the operations that have begun and not ended, with the processes of their commands."""
    events = read(folder / "journal", only="operation-*")
    ended = {event["id"] for event in named(events, "end")}
    return {event["id"]: event["pid"] for event in named(events, "begin") if event["id"] not in ended}


def _role(pid: int, command: int) -> str:
    if pid == command:
        return "command"
    with suppress(OSError), open(f"/proc/{pid}/cmdline", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
        words = file.read()
        for part, role in _ROLES:
            if part in words:
                return role
    return "process of a job"


_ROLES = (
    ("sparkjobs.run_inline", "driver without Spark"),
    ("sparkjobs.executors.daemon", "Spark worker"),
    ("org.apache.spark", "Java of Spark"),
    ("/sparkjobs/", "driver on Spark"),
    ("postgres", "server of a drill"),
)


def _signal(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def _fields(weather: Weather) -> dict[str, float]:
    return {name: getattr(weather, name) for name in ("busy", "cut", "lost", "torn", "slow", "pause")}


_KINDS: tuple[tuple[Callable[[Faults], None], float], ...] = (
    (Faults.weather, 10),
    (Faults.store_clock, 2),
    (Faults.kill_process, 5),
    (Faults.kill_command, 1),
    (Faults.stop_shortly, 4),
    (Faults.stop_past_the_lease, 2),
    (Faults.kill_store, 2),
    (Faults.kill_coordination, 2),
    (Faults.kill_sources, 0.7),
    (Faults.cut_coordination, 5),
    (Faults.cut_sources, 2),
    (Faults.fill_disk, 1.5),
    (Faults.kill_scheduler, 1),
    (Faults.kill_load, 1),
)
