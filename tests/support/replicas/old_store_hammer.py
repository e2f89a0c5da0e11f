"""Real processes that do all one does to replicas are killed while copies of their coordination store are put back.

What each of them was told is judged: `Hammer.judge` says by what. The copies are put back in one transaction beneath
processes that are at work: so also what is under way meets another store than it began with.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from holdfast.archive import Archive
from holdfast.archive.format.last_seen import PutBackError
from holdfast.archive.format.state import State
from holdfast.archive.maintenance.verify import verify
from holdfast.common.errors import HoldfastError, RefusedError, sentence
from holdfast.replication.log import schema
from holdfast.replication.log.errors import LostReplicaError, OldStoreError
from holdfast.replication.log.replicas import ReplicaRow, replicas
from holdfast.replication.log.store import CoordinationStore
from holdfast.replication.work import membership
from holdfast.replication.work.recovery import recover
from holdfast.storage import open_store
from locking import LockError
from locking.store import StoreError
from tests.support.hammer.worker import Log
from tests.support.jobs.command import until
from tests.support.replicas.old_store_worker import Job, rebuild, told_by_rebuild
from tests.support.replicas.rebuilt import furthest
from tests.support.replicas.replicated import Replicas

Event = dict[str, Any]

Copy = dict[str, list[dict[str, Any]]]
"""Rows of a coordination store, by table."""

ROOT = Path(__file__).resolve().parents[3]

_NO_THREADS = {"OPENBLAS_NUM_THREADS": "1", "JE_ARROW_MALLOC_CONF": "background_thread:false"}
"""Keeps numpy and pyarrow from starting threads when they are imported, which a fork would lose."""

MACHINES = ("one", "two")
"""That remember what they have seen; processes also run on machines that do not."""

COPIES = 4
"""So many copies are kept at a time."""

PATIENCE_S = 30.0


class ViolationError(AssertionError):
    """Something that was promised and does not hold."""


@dataclass
class Hammer:
    """Processes at work on replicas, which are killed and replaced.

    :param folder: for what they write down.
    :param puts_back: copies of the store, too; else nothing may ever contradict it.
    :param processes: at a time.
    :ivar tally: what was done to them and to the store.
    """

    given: Replicas
    names: tuple[str, ...]
    seed: int
    folder: Path
    processes: int = 3
    puts_back: bool = True
    tally: Counter[str] = field(default_factory=Counter)
    _copies: list[Copy] = field(default_factory=list)
    _crew: list[int] = field(default_factory=list)
    _began: float = field(default_factory=time.monotonic)

    @property
    def _store(self) -> CoordinationStore:
        return self.given.coordination

    def go(self, seconds: float) -> None:
        """Have processes at work for so long, and kill the last of them."""
        self.folder.mkdir(parents=True, exist_ok=True)
        drawn = random.Random(self.seed)
        with self._forks() as self._forking:
            for _ in range(self.processes):
                self._start(drawn)
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                time.sleep(drawn.uniform(0.05, 0.6))
                self._act(drawn)
            for process in self._crew:
                self._kill(process)

    @contextmanager
    def _forks(self) -> Iterator[subprocess.Popen[str]]:
        """Run the process that forks the others, which end with it."""
        command = [sys.executable, "-m", "tests.support.replicas.old_store_worker"]
        with (
            (self.folder / "said").open("wb") as said,
            subprocess.Popen(
                command, cwd=ROOT, env={**os.environ, **_NO_THREADS, "PYTHONPATH": str(ROOT)}, text=True,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said,
            ) as forking,
        ):  # fmt: skip
            yield forking

    def _act(self, drawn: random.Random) -> None:
        chance = drawn.random()
        if chance < 0.5 or not self.puts_back:
            process = self._crew.pop(drawn.randrange(len(self._crew)))
            self._kill(process)
            self._start(drawn)
        elif chance < 0.7 or not self._copies:
            self._copies = [*self._copies, self._store.run(_rows)][-COPIES:]
            self.tally["copies"] += 1
        elif chance < 0.8:
            self._put_back(drawn.choice(self._copies))
        elif chance < 0.9:
            self._suspend(drawn)

    def _suspend(self, drawn: random.Random) -> None:
        """Suspend a process while copies are put back, and the others go on."""
        process = drawn.choice(self._crew)
        self._send(process, signal.SIGSTOP)
        with ThreadPoolExecutor(1) as pool:  # it may be within a transaction, which the copy then waits for
            puts = []
            for _ in range(drawn.randrange(1, 3)):
                time.sleep(drawn.uniform(0.1, 0.5))
                puts.append(pool.submit(self._put_back, drawn.choice(self._copies)))
            time.sleep(drawn.uniform(0.1, 0.8))
            self._send(process, signal.SIGCONT)
            for each in puts:
                each.result()
        self.tally["suspended"] += 1

    def _put_back(self, copy: Copy) -> None:
        self._store.run(lambda c: _write(c, copy))
        self.tally["put back"] += 1

    def _start(self, drawn: random.Random) -> None:
        number = self.tally["started"]
        self.tally["started"] += 1
        job = Job(
            log=str(self.folder / f"{number:04}.jsonl"),
            under=self.given.under,
            address=self.given.coordination.url,
            archive=self.given.archive,
            names=self.names,
            seed=f"{self.seed}/{drawn.random()}",
            began=self._began,
            memory=drawn.choice(("off", *(str(self.folder / machine) for machine in MACHINES))),
        )
        if self._forking.stdin is None or self._forking.stdout is None:
            raise RuntimeError("nobody forks")
        print(json.dumps(asdict(job)), file=self._forking.stdin, flush=True)
        self._crew.append(int(self._forking.stdout.readline()))

    def _send(self, process: int, number: signal.Signals) -> None:
        try:
            os.kill(process, number)
        except ProcessLookupError:
            said = (self.folder / "said").read_text(errors="replace")
            raise ViolationError(f"a process ended by itself: {said[said.find('Traceback') :]}") from None

    def _kill(self, process: int) -> None:
        self._send(process, signal.SIGKILL)
        until(lambda: not Path(f"/proc/{process}").exists(), "a killed process to be gone")
        self.tally["kills"] += 1

    def end(self) -> None:
        """Bring all replicas to the same, as the runbooks say: there has to be a way, whatever has happened."""
        run, archive = self._store.run, self.given.archive
        run(lambda c: c.execute(schema.replicas.update().values(active_until=0.0)))
        self._must("rebuild-store", self._rebuilt)
        for row in self._rows():
            with suppress(LostReplicaError, RefusedError):  # one that is behind a copy which was put back
                self.given.sync(row.name)
        best = furthest(self._store, archive)
        with suppress(RefusedError):  # where one is good
            membership.elect(self._store, archive, best, wait=PATIENCE_S)
        for row in self._rows():
            self._recovered(row)
        for _ in range(2):  # the first decides what is pending, and the second executes what takes that back
            for row in self._rows():
                self._must(f"sync {row.name}", lambda name=row.name: self.given.sync(name))
        for name in [row.name for row in self._rows() if row.leaves_by]:
            self._must(f"remove {name}", partial(membership.remove, self._store, archive, name, wait=PATIENCE_S))
        for row in self._rows():
            self._must(f"backup through {row.name}", lambda name=row.name: self.given.back_up(name, "at_the_end"))
            for each in self._rows():
                self._must(f"sync {each.name}", lambda name=each.name: self.given.sync(name))

    def _recovered(self, row: ReplicaRow) -> None:
        archive, name = self.given.archive, row.name
        if row.is_lost and not row.pointer:
            self._must(f"add {name}", lambda: membership.add(self._store, archive, name, row.url, wait=PATIENCE_S))
        if row.is_lost:
            self._must(f"recover {name}", lambda: recover(self._store, archive, name, wait=PATIENCE_S))

    def _rows(self) -> list[ReplicaRow]:
        return self._store.run(lambda c: replicas(c, self.given.archive))

    def _rebuilt(self) -> None:
        """Rebuild the store where it contradicts replicas, and write down as a worker does who was told so."""
        done = rebuild(self._store, self.given.under, self.names, wait=PATIENCE_S)
        if done is None:
            return
        log = Log(self.folder / "end.jsonl")
        log.write("refused", time.monotonic_ns(), work="end", error="OldStoreError")
        log.write("done", time.monotonic_ns(), work="end", said=told_by_rebuild(done))
        log.close()

    def _must(self, words: str, work: Any) -> None:
        try:
            work()
        except (HoldfastError, LockError, StoreError) as error:
            raise ViolationError(f"no way out: {words}: {type(error).__name__}: {sentence(error)}") from error

    def events(self) -> list[Event]:
        """Return what all processes have written down, in its order."""
        lines = (line for path in sorted(self.folder.glob("*.jsonl")) for line in path.read_text().splitlines())
        return sorted((json.loads(line) for line in lines), key=lambda event: int(event["at"]))

    def judge(self) -> None:
        """Judge what was told, by what the replicas have in the end.

        - A sequential read shows every backup that a quorum had before it began, and so do all replicas in the end.
        - A backup that one replica had is at all replicas in the end, or was set aside: then its files are there, and
          somebody was told that replicas contradict the store, and then that this one does not go on as it is.
        - All replicas are equal, and whole.
        - No machine that remembers takes a replica for an older copy: only the store's copies are put back.

        Blocks that truncations and compactions have removed are looked for nowhere.

        :raises ViolationError: one of that does not hold.
        """
        events = self.events()
        self.tally.update(each["what"] for each in events)
        states = {row.name: self.given.state(row.name) for row in self._rows()}
        gone = self._removed()
        first = next(iter(states.values()))
        unequal = {name: sorted(first.blocks.keys() ^ state.blocks.keys()) for name, state in states.items()}
        _check(not any(unequal.values()), f"the replicas are not equal: {unequal}")
        _check(all(state.holds.keys() == first.holds.keys() for state in states.values()), "their holds are not equal")
        _check(all(dict(state.ends) == dict(first.ends) for state in states.values()), "their sources' ends differ")
        self._judge_reads(events, gone)
        told = {each["block"] for each in events if each["what"] == "told"}
        _check(not (lacking := told - first.blocks.keys() - gone), f"acknowledged by a quorum, and lost: {lacking}")
        self._judge_plain(events, first, gone)
        for each in events:
            _check(each.get("error") != PutBackError.__name__, f"a machine refused a replica that is well: {each}")
            contradicts = each.get("error") == OldStoreError.__name__ or "does not follow" in str(each.get("said"))
            _check(self.puts_back or not contradicts, f"something contradicts the store, which is as it was: {each}")
        for name in states:
            _check(self.given.is_whole(name), f"{name} is not whole")
            damage = verify(Archive.open(self.given.place(name))).damage
            _check(damage == (), f"verify of {name}: {damage}")

    def _judge_reads(self, events: list[Event], gone: set[str]) -> None:
        told: dict[str, int] = {each["block"]: each["at"] for each in events if each["what"] == "told"}
        for read in (each for each in events if each["what"] == "read"):
            due = {block for block, at in told.items() if at < read["since"]}
            lacking = due - set(read["blocks"]) - gone
            _check(not lacking, f"a sequential read at {read['name']} at {read['at']} does not show {lacking}")

    def _judge_plain(self, events: list[Event], state: State, gone: set[str]) -> None:
        plain = {each["block"]: each["at"] for each in events if each["what"] == "plain"}
        aside = {block: name for name, there in self._places() for block in there.state.aside}
        contradicted = [each["at"] for each in events if each.get("error") == "OldStoreError"]
        settled = [
            (each["at"], each["said"].get("lost", ()), each["said"].get("aside", ()))
            for each in events
            if each["what"] == "done" and each["work"] in ("rebuild", "recover", "end")
        ]
        for block in plain.keys() - state.blocks.keys() - gone:
            _check(block in aside, f"acknowledged by a replica, and at no place any more: {block}")
            later = [at for at in contradicted if at > plain[block]]
            _check(bool(later), f"set aside at {aside[block]} without a word: {block}")
            named = any(aside[block] in lost or block in blocks for at, lost, blocks in settled if at > min(later))
            _check(named, f"set aside without its replica {aside[block]} being named: {block}")
            self.tally["set aside"] += 1

    def _removed(self) -> set[str]:
        """Return the blocks that truncations and compactions have removed at any replica."""
        return {
            block
            for _, there in self._places()
            for commit in there.commits()
            if commit.kind in ("truncation", "compaction")
            for block in commit.remove
        }

    def _places(self) -> Iterator[tuple[str, Archive]]:
        """Return the archives at all places, also of replicas that were removed."""
        for name in self.names:
            yield name, Archive.open(open_store(f"{self.given.under}/{name}"), recovering=True)


def _check(holds: bool, words: str) -> None:
    if not holds:
        raise ViolationError(words)


def _rows(connection: sa.Connection) -> Copy:
    tables = schema.metadata.sorted_tables
    return {table.name: [dict(row) for row in connection.execute(table.select()).mappings()] for table in tables}


def _write(connection: sa.Connection, copy: Copy) -> None:
    for table in reversed(schema.metadata.sorted_tables):
        connection.execute(table.delete())
    for table in schema.metadata.sorted_tables:
        if copy[table.name]:
            connection.execute(table.insert(), copy[table.name])
