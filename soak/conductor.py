"""A run: storms with faults and calms without, an end in which everything is settled, and the verdict on all of it."""

from __future__ import annotations

import itertools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from demo.supervisor import descendants
from soak.checks import acknowledged, exit_codes, lock_history, restores, traces
from soak.checks.violation import Verdict
from soak.faults import Faults, running_operations
from soak.journal import Journal, named, read
from soak.operations import KEPT, Operation
from soak.servers import LANES, REPLICAS, SOURCES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from soak.journal import Event
    from soak.servers import Servers

STORM_S = 240.0
CALM_S = 45.0
PAUSE_S = (2.0, 8.0)
"""Seconds between two faults of a storm."""

EMPTIED = 0.8
"""So often a storm ends with a replica whose place is emptied."""

SCHEDULERS = 2
AT_A_TIME = 2
LOAD_PAUSE_S = 0.5
SETTLED = "in the end everything can be settled: replicas synced, all backed up, verified, restored"
_TICK_S = 0.5
_TRIES = 12
_AGAIN_S = 10.0

_CLOCK = Path(__file__).with_name("wrong_clock.c")


@dataclass
class Outcome:
    """What a run has to tell.

    :param skipped: what could not be done on this machine, each in a sentence.
    """

    seed: int
    seconds: float
    events: list[Event]
    verdicts: list[Verdict]
    failed_requests: Mapping[str, int]
    requests: int
    skipped: list[str] = field(default_factory=list)


class Conductor:
    """Leads a run.

    :param say: tells whoever waits how far it is.
    """

    def __init__(
        self, servers: Servers, journal: Journal, *, seed: int, seconds: float, say: Callable[[str], None]
    ) -> None:
        self._servers = servers
        self._folder = servers.folder
        self._journal = journal
        self._seed = seed
        self._seconds = seconds
        self._say = say
        self._random = random.Random(f"{seed}/faults")
        self._names = itertools.count(1)
        self._orders = itertools.count(1)
        self._schedulers: list[subprocess.Popen[bytes]] = []
        self._loads: dict[str, subprocess.Popen[bytes]] = {}
        self._arguments: dict[int, str] = {}
        self._settled = Verdict(SETTLED)
        self._skipped: list[str] = []
        self._faults = Faults(
            servers, journal, self._random, restart_scheduler=self._replace_scheduler, restart_load=self._replace_load
        )

    def run(self) -> Outcome:
        """Run to the end, and judge."""
        began = time.monotonic()
        self._prepare()
        for name in SOURCES:
            self._start_load(name)
        self._begin()
        for _ in range(SCHEDULERS):
            self._start_scheduler()
        end = time.monotonic() + self._seconds
        while time.monotonic() < end:
            self._storm(min(end, time.monotonic() + STORM_S))
            if time.monotonic() < end:
                self._calm(min(end, time.monotonic() + CALM_S))
        self._finish_operations()
        points = self._settle()
        return self._judge(points, time.monotonic() - began)

    def stop(self) -> None:
        """End what this has started."""
        self._faults.mend()
        for process in (*self._schedulers, *self._loads.values()):
            process.kill()
            process.wait()

    def _prepare(self) -> None:
        for name in ("orders", "logs", "tmp"):
            (self._folder / name).mkdir()
        clock = self._build_clock()
        if self._servers.no_disk:
            self._skipped.append(self._servers.no_disk)
        settings = self._folder / "settings.json"
        settings.touch(mode=0o600)
        settings.write_text(
            json.dumps(
                {
                    "seed": self._seed,
                    "clock": clock,
                    "environment": {**self._servers.environment, "TMPDIR": str(self._folder / "tmp")},
                    "source_password": self._servers.canaries["sources"],
                    "target": self._servers.target_variables("postgres"),
                }
            )
        )

    def _build_clock(self) -> str:
        """Return the library that makes clocks wrong; "" where it cannot be built."""
        made = self._folder / "wrong_clock.so"
        compiler = shutil.which("cc")
        words: list[str | Path] = [compiler or "cc", "-shared", "-fPIC", "-O1", "-o", made, _CLOCK, "-ldl"]
        if compiler and subprocess.run(words, capture_output=True, check=False).returncode == 0:
            return str(made)
        self._skipped.append("no operation's clock jumped: there is no C compiler to build what does that")
        return ""

    def _begin(self) -> None:
        """Make the archive, its replicas, and a first backup of each source."""
        self._must("init", "init", "s3://near/soak", "--name", "soak", "--json")
        for name in REPLICAS:
            self._must("replica add", "replica", "add", name, f"s3://{name}/soak", "--json")
        for name in SOURCES:
            self._must("backup changes", *_backup(name, "changes"), source=name)

    def _storm(self, until: float) -> None:
        self._journal.write("storm")
        self._say("storm")
        next_fault = time.monotonic() + self._random.uniform(*PAUSE_S)
        empties = self._random.random() < EMPTIED
        while time.monotonic() < until:
            self._tick()
            if time.monotonic() >= next_fault:
                self._faults.act()
                next_fault = time.monotonic() + self._random.uniform(*PAUSE_S)
        if empties:
            self._lose_a_replica()

    def _calm(self, until: float) -> None:
        """Mend all, wait until what was disturbed has ended, and see that everything goes well."""
        (self._folder / "pause").touch()
        self._faults.mend()
        disturbed = set(running_operations(self._folder))
        self._say(f"mended; waiting for {len(disturbed)} operations")
        while disturbed & set(running_operations(self._folder)) and time.monotonic() < until + 300:
            self._tick()
        self._run("replica recover", "replica", "recover", "--lost", "--json", "--wait", "60")
        self._run("replica sync", "replica", "sync", "--all", "--json", "--wait", "60")
        (self._folder / "pause").unlink()
        self._is_calm()
        until = max(until, time.monotonic() + CALM_S)
        while time.monotonic() < until:
            self._tick()

    def _is_calm(self) -> None:
        self._journal.write("calm")
        self._say("calm")

    def _tick(self) -> None:
        self._faults.tick()
        for pid in descendants(os.getpid()) - self._arguments.keys():
            self._arguments.update(traces.arguments_of([pid]))
        for name, load in self._loads.items():
            if load.poll() is not None:
                self._start_load(name)
        time.sleep(_TICK_S)

    def _lose_a_replica(self) -> None:
        """Empty a replica while all others are well, and make it anew."""
        self._faults.mend()
        if self._run("replica sync", "replica", "sync", "--all", "--json", "--wait", "60"):
            return
        name = self._faults.empty_replica()
        words = ("replica", "add", name, f"s3://{name}/soak", "--json", "--wait", "60")
        self._say(f"replica {name} emptied")
        self._retry("replica remove", "replica", "remove", name, "--force", "--json", "--wait", "60")
        self._retry("replica add", *words, before=lambda: self._faults.clear_place(name))
        self._retry("replica sync", "replica", "sync", "--all", "--json", "--wait", "60")

    def _finish_operations(self) -> None:
        (self._folder / "stop").touch()
        self._faults.mend()
        self._say("no more faults; waiting for what runs")
        deadline = time.monotonic() + 900
        while running_operations(self._folder) and time.monotonic() < deadline:
            self._tick()
        for scheduler in self._schedulers:
            scheduler.wait(60)
        self._is_calm()

    def _settle(self) -> dict[str, acknowledged.Points]:
        """Bring everything to an end that can be compared; return what each replica can restore."""
        self._say("settling")
        for name, load in self._loads.items():
            load.send_signal(signal.SIGTERM)
            self._settled.judge(load.wait(60) == 0, f"the load on {name} failed")
        self._loads.clear()
        self._retry("replica recover", "replica", "recover", "--lost", "--json", "--wait", "60")
        for name in SOURCES:
            self._must("backup changes", *_backup(name, "changes"), source=name)
        self._must("replica sync", "replica", "sync", "--all", "--json", "--wait", "60")
        points = {}
        for replica in REPLICAS:
            url = f"s3://{replica}/soak"
            done = self._must("verify deep", "verify", url, "--deep", "--json", "--wait", "60", replica=replica)
            self._settled.judge(not done.get("damage"), f"{replica} is damaged: {done.get('damage')}")
            points[replica] = acknowledged.points_of(self._must("points", "points", url, "--json"))
            for name in SOURCES:
                words = ("restore", url, "--source", name, "--to", "{target}", "--json", "--wait", "60")
                self._must("restore", *words, source=name, replica=replica, moment=time.time())
            self._must("locks reap", "locks", "reap", url, "--json")
            left = self._must("locks list", "locks", "list", url, "--json").get("locks")
            self._settled.judge(not left, f"locks of operations that have ended are left at {replica}: {left}")
        return points

    def _judge(self, points: Mapping[str, acknowledged.Points], seconds: float) -> Outcome:
        events = read(self._folder / "journal")
        own = self._servers.pids | {os.getpid()}
        servers = set().union(own, *(descendants(pid) for pid in self._servers.pids)) | self._servers.s3.pids
        left = traces.arguments_of(descendants(os.getpid()) - servers)
        told = [self._folder / name for name in ("logs", "journal", "orders", "tmp", "s3")]
        verdicts = [
            *lock_history.check(events),
            *exit_codes.check(events),
            *restores.check(events, self._seed),
            *acknowledged.check(events, points, keeps=KEPT),
            traces.check_secrets(told, self._servers.canaries),
            traces.check_arguments(self._arguments, self._servers.canaries),
            traces.check_processes(left),
            self._settled,
        ]
        proxy = self._servers.proxy
        return Outcome(self._seed, seconds, events, verdicts, dict(proxy.failed), proxy.passed, self._skipped)

    def _start_scheduler(self) -> None:
        name = f"s{next(self._names)}"
        with (self._folder / "logs" / f"scheduler-{name}").open("wb") as said:
            self._schedulers.append(
                subprocess.Popen(
                    [sys.executable, "-m", "soak.scheduler", self._folder, name, str(self._seed), str(AT_A_TIME)],
                    stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True,
                )
            )  # fmt: skip

    def _replace_scheduler(self) -> None:
        one = self._random.choice(self._schedulers)
        one.kill()
        one.wait()
        self._schedulers.remove(one)
        self._start_scheduler()

    def _start_load(self, source: str) -> None:
        name = f"load-{source}-{next(self._names)}"
        numbers = [str(each) for each in (self._seed, LANES, LOAD_PAUSE_S)]
        words: list[str | Path] = [self._folder / "journal", name, source, *numbers]
        with (self._folder / "logs" / name).open("wb") as said:
            self._loads[source] = subprocess.Popen(
                [sys.executable, "-m", "soak.load", *words],
                stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True,
                env={**os.environ, **self._servers.source_variables(source)},
            )  # fmt: skip

    def _replace_load(self) -> None:
        source = self._random.choice(SOURCES)
        self._loads[source].kill()
        self._loads[source].wait()
        self._start_load(source)

    def _run(self, kind: str, *words: str, source: str = "", replica: str = "", moment: float | None = None) -> int:
        """Run one operation of ours beside the others; return its exit code."""
        return int(self._end_of(Operation(kind, words, replica, source, moment))["code"])

    def _retry(self, kind: str, *words: str, before: Callable[[], None] | None = None) -> bool:
        """Run an operation until it ends well.

        :param before: is done before each try.
        """
        for attempt in range(_TRIES):
            if before is not None:
                before()
            if self._run(kind, *words) == 0:
                return True
            self._say(f"{kind}: again ({attempt + 1})")
            self._wait(_AGAIN_S)
        return False

    def _must(self, kind: str, *words: str, **more: Any) -> dict[str, Any]:
        """Run an operation that has to end well, if need be at its next tries; return its result."""
        said: dict[str, Any] = {}
        for _ in range(_TRIES):
            said = self._end_of(Operation(kind, words, **more))
            if said["code"] == 0:
                self._settled.judge(True, "")
                return dict(said["result"])
            self._wait(_AGAIN_S)
        self._settled.judge(False, f"{kind} ends with {said['code']} again and again: {said['words'][-400:]}")
        return {}

    def _wait(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self._tick()

    def _end_of(self, operation: Operation) -> Event:
        identity = f"c-{next(self._orders)}"
        operation = replace(operation, variables={"HOLDFAST_EXECUTOR": "inline"})
        (self._folder / "orders" / f"{identity}.json").write_text(json.dumps(operation.as_json()))
        with (self._folder / "logs" / f"{identity}.runner").open("wb") as said:
            runner = subprocess.Popen(
                [sys.executable, "-m", "soak.runner", self._folder, identity],
                stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True,
            )  # fmt: skip
        while runner.poll() is None:
            self._tick()
        ends = named(read(self._folder / "journal", only=f"operation-{identity}"), "end")
        if ends:
            return ends[-1]
        words = (self._folder / "logs" / f"{identity}.runner").read_text(errors="replace")[-400:]
        return {"what": "end", "at": time.time(), "code": -1, "result": {}, "words": words}


def _backup(source: str, kind: str) -> tuple[str, ...]:
    return ("backup", "soak", "--source", source, "--kind", kind, "--json", "--wait", "120")
