"""A process that does whatever one does to replicas, drawn at random, while copies of their store are put back.

It writes down what it was told, until it is killed: `begun` for a backup, then `told` (a quorum has it) or `plain`
(its replica has it); `read` for a sequential read, with what it has shown; `done` for all else, and `refused` with the
error, each with its time in nanoseconds. Others may have done the same meanwhile: so what an error says is no failure.

Run as a program it imports everything once, then forks a worker for each line of JSON it reads, and prints its number:
so a worker costs no imports. It ends with its input, and those who are left with it.
"""

# ruff: noqa: T201 - what it prints is what its starter reads

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
import traceback
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from itertools import count, pairwise
from pathlib import Path

from holdfast.archive import Archive, Change, locks
from holdfast.archive.format.block import Block
from holdfast.archive.format.last_seen import VARIABLE
from holdfast.archive.format.state import State
from holdfast.archive.maintenance.compaction import Group, join
from holdfast.archive.maintenance.hold_requests import add_hold, remove_hold
from holdfast.archive.maintenance.retention import parse_rules
from holdfast.archive.maintenance.truncation import truncate
from holdfast.archive.maintenance.vacuum import vacuum
from holdfast.common.errors import HoldfastError, OutcomeUnknownError, RefusedError, sentence
from holdfast.common.lsn import parse_position, show_position
from holdfast.replication.log import schema
from holdfast.replication.log.errors import LostReplicaError, OldStoreError
from holdfast.replication.log.leader import lead, resign
from holdfast.replication.log.replicas import ReplicaRow, mark_lost, replica, replicas
from holdfast.replication.log.settings import QuorumRequest
from holdfast.replication.log.store import CoordinationStore
from holdfast.replication.log.trimming import trim
from holdfast.replication.work import membership, quorum_wait, turn
from holdfast.replication.work.consistent_read import open_to_read
from holdfast.replication.work.quorum_wait import QuorumWait
from holdfast.replication.work.rebuild_store import Rebuilding, prepare
from holdfast.replication.work.rebuild_store import rebuild as carry_out
from holdfast.replication.work.recovery import recover
from holdfast.replication.work.replica import ReplicatedArchive
from holdfast.replication.work.replica_backup import source_taken
from holdfast.replication.work.replica_vacuum import ReplicaPermit
from holdfast.replication.work.sync import sync_replica
from holdfast.storage import ObjectStore, open_store
from locking import LockError, Owner
from locking.store import ObjectNotFound, StoreError
from tests.support.hammer.worker import Log
from tests.support.replicas import replicated
from tests.support.replicas.given_up import changes, full
from tests.support.replicas.rebuilt import furthest
from tests.support.replicas.replicated import made_backup, nothing

REFUSALS = (HoldfastError, LockError, StoreError)

LEASE_S = 2.0
"""Of a recovery and of a leader: where one was killed, another one begins after so long."""

POLL_S = 0.1
"""Between two looks whether it is one's turn, or a quorum has it."""

PATIENCE_S = 2.0

HEEDED = 0.5
"""How often somebody does at once what an error says."""

DEADLINES_S = (0.2, 1.0, 20.0)
"""That quorums have: some fail."""

CHAIN = "chain"
"""The source whose changes are compacted."""

SHORT = "short"
"""The source whose backups are truncated, and held; no other one's are."""

TICKS = 20
"""Positions of sources are so many a second, with room for processes that draw one at the same time."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """What a worker works on.

    :param log: the path of the file that it writes down in.
    :param under: the URL or path under which each replica is, by its name.
    :param address: of the coordination store.
    :param archive: its id.
    :param names: of the replicas that may be.
    :param began: when all began, by the clock that the processes of a machine share.
    :param memory: folder of what the machine has seen, or `off`.
    """

    log: str
    under: str
    address: str
    archive: str
    names: Sequence[str]
    seed: str
    began: float
    memory: str


class Worker:
    """Works on an archive's replicas, as people, schedulers and jobs do."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._store = CoordinationStore.open(job.address)
        self._random = random.Random(job.seed)
        self._log = Log(Path(job.log))
        self._works = self._weighted()
        self._next: Callable[[str], object] | None = None
        self._ways_out: dict[type[Exception], Callable[[str], object]] = {
            OldStoreError: self._rebuild,
            LostReplicaError: self._recover,
        }

    def _weighted(self) -> list[Callable[[str], object]]:
        often: list[Callable[[str], object]] = [self._quorum, self._sync, self._read]
        sometimes: list[Callable[[str], object]] = [self._plain, self._chain, self._recover, self._rebuild]
        seldom: list[Callable[[str], object]] = [
            self._lose, self._elect, self._trim, self._add, self._remove, self._compact, self._truncate, self._hold,
            self._release, self._vacuum,
        ]  # fmt: skip
        return [*often * 4, *sometimes * 2, *seldom]

    def run(self) -> None:
        """Go on until killed."""
        while True:
            self.step()

    def step(self) -> None:
        """Do one thing, and write down what came of it."""
        work, name = self._next or self._random.choice(self._works), self._random.choice(self._job.names)
        self._next = None
        word = work.__name__.strip("_")
        try:
            said = work(name)
        except REFUSALS as error:
            self._note("refused", work=word, name=name, error=type(error).__name__, said=sentence(error))
            if (way_out := self._ways_out.get(type(error))) and self._random.random() < HEEDED:
                self._next = way_out
        else:
            self._note("done", work=word, name=name, said=said)

    def _note(self, what: str, **more: object) -> None:
        self._log.write(what, time.monotonic_ns(), **more)

    def place(self, name: str) -> ObjectStore:
        """Return the store of a replica."""
        return open_store(f"{self._job.under}/{name}")

    def _open(self, name: str) -> ReplicatedArchive:
        return ReplicatedArchive.begin(self.place(name), self._store)

    def _made(self, store: ObjectStore, source: str) -> Block:
        """Write the files of a backup at a later position than all before."""
        now = int((time.monotonic() - self._job.began) * TICKS) + 1
        replicated._numbers = count(now * 16 + self._random.randrange(16))
        _, plan = made_backup(store, source, identity=uuid.uuid4().hex)
        return plan(Archive.open(store).state).add[0]

    def _back_up(
        self, name: str, source: str, quorum_request: QuorumRequest | None, make: Callable[[Block], Block]
    ) -> str:
        """Add a backup through a replica, under the lock that a backup has; return its block."""
        store = self.place(name)
        with (
            locks.acquire(store, "backup", sources=[source], owner=Owner(), purpose="backup", wait=PATIENCE_S),
            source_taken(
                store, source, uuid.uuid4().hex, self._job.address, quorum_request=quorum_request, wait=PATIENCE_S
            ),
        ):
            archive = self._open(name)
            archive.quorum_request = quorum_request
            block = make(self._made(store, source))
            self._note("begun", block=block.id, name=name, quorum=quorum_request is not None)
            ends = {source: archive.state.ends.get(source)}
            archive.add(lambda state: Change("backup", add=(block,), expected_ends=ends), check=nothing, fence=None)
        return block.id

    def _plain(self, name: str) -> None:
        source = self._random.choice((SHORT, "plain_0", "plain_1"))
        self._note("plain", block=self._back_up(name, source, None, lambda block: block), name=name)

    def _quorum(self, name: str) -> None:
        size = self._random.randrange(2, len(self._job.names) + 1)
        quorum_request = QuorumRequest(size, self._random.choice(DEADLINES_S))
        block = self._back_up(name, f"quorum_{self._random.randrange(2)}", quorum_request, lambda block: block)
        waiting = QuorumWait(self._store, self._job.archive, block, name)
        try:
            waiting.check_success(waiting.decided(patience=PATIENCE_S))
        except OutcomeUnknownError as error:
            self._note("unknown", block=block, said=sentence(error))
        else:
            self._note("told", block=block, name=name)

    def _chain(self, name: str) -> None:
        """Back up what has changed since the last backup, or else all."""
        end = self._open(name).state.streams.get(CHAIN)
        begins = end is None or self._random.random() < 0.1

        def make(block: Block) -> Block:
            here = block.covers.to_position
            later = show_position(max(parse_position(here), parse_position(end or "0/0") + 1))
            return (full(later) if end is None or begins else changes(end, later))(block)

        self._note("plain", block=self._back_up(name, CHAIN, None, make), name=name)

    def _read(self, name: str) -> None:
        since = time.monotonic_ns()
        opened = open_to_read(self.place(name), "sequential", address=self._job.address)
        self._note("read", since=since, name=name, blocks=sorted(opened.state.blocks))

    def _sync(self, name: str) -> None:
        row = self._store.run(lambda c: replica(c, self._job.archive, name))
        sync_replica(self._store, self._job.archive, row, wait=PATIENCE_S)

    def _lose(self, name: str) -> None:
        """Lose a replica for a reason that nobody knows; seldom all at once."""
        if self._random.random() < 0.1:
            r = schema.replicas.c
            of_archive = schema.replicas.update().where(r.archive == self._job.archive)
            self._store.run(lambda c: c.execute(of_archive.values(is_lost=True, lost_reason="drawn")))
        else:
            self._store.run(lambda c: mark_lost(c, self._job.archive, name, "drawn"))

    def _recover(self, name: str) -> dict[str, object]:
        lost = [row.name for row in self._rows() if row.is_lost]
        chosen = name if name in lost or not lost else self._random.choice(lost)
        done = recover(self._store, self._job.archive, chosen, wait=PATIENCE_S, lease=LEASE_S)
        return {"aside": list(done.aside), "from": done.source}

    def _rows(self) -> list[ReplicaRow]:
        return self._store.run(lambda c: replicas(c, self._job.archive))

    def _elect(self, name: str) -> int:
        best = furthest(self._store, self._job.archive)
        chosen = best if self._random.random() < 0.7 else name
        return membership.elect(self._store, self._job.archive, chosen, wait=PATIENCE_S)

    def _trim(self, name: str) -> None:
        if self._random.random() < 0.3:  # it was away for long
            r = schema.replicas.c
            of_replica = schema.replicas.update().where(r.archive == self._job.archive, r.name == name)
            self._store.run(lambda c: c.execute(of_replica.values(active_until=0.0)))
        trim(self._store, self._job.archive, min_keep=0, max_keep=self._random.randrange(6))

    def _add(self, name: str) -> None:
        membership.add(self._store, self._job.archive, name, self.place(name).url, wait=PATIENCE_S)
        recover(self._store, self._job.archive, name, wait=PATIENCE_S, lease=LEASE_S)

    def _remove(self, name: str) -> str:
        return membership.remove(self._store, self._job.archive, name, wait=PATIENCE_S)

    def _rebuild(self, name: str) -> dict[str, object]:
        return told_by_rebuild(rebuild(self._store, self._job.under, self._job.names, wait=PATIENCE_S))

    def _leading(self, name: str, work: Callable[[ReplicatedArchive], object]) -> None:
        archive = self._open(name)
        _, acting = archive.in_use()
        epoch = archive.leader_epoch = self._store.run(lambda c: lead(c, acting, lease=LEASE_S))
        archive.catch_up(wait=PATIENCE_S)
        try:
            work(archive)
        finally:
            self._store.run(lambda c: resign(c, acting, epoch))

    def _truncate(self, name: str) -> None:
        rules = parse_rules([f"last={self._random.randrange(1, 4)}"])
        self._leading(name, lambda archive: truncate(archive, rules, check=nothing, fence=None, source=SHORT))

    def _compact(self, name: str) -> None:
        self._leading(name, _join_first)

    def _hold(self, name: str) -> None:
        archive = self._open(name)
        archive.catch_up(wait=PATIENCE_S)
        add_hold(archive, SHORT, "latest", reason="drawn", owner="hammer", check=nothing)

    def _release(self, name: str) -> None:
        archive = self._open(name)
        archive.catch_up(wait=PATIENCE_S)
        if archive.state.holds:
            remove_hold(archive, self._random.choice(sorted(archive.state.holds)), reason="drawn", check=nothing)

    def _vacuum(self, name: str) -> None:
        """Delete without any grace."""
        store = self.place(name)
        with locks.acquire(store, "vacuum", owner=Owner(), purpose="test", wait=PATIENCE_S) as held:
            _, acting = self._open(name).in_use()
            permit = ReplicaPermit(self._store, self._job.archive, acting)
            vacuum(Archive.open(store), check=held.check, fence=held.fence, grace=timedelta(0), wait=0.5, permit=permit)


def _join_first(archive: ReplicatedArchive) -> None:
    """Join the first two blocks of changes that follow each other."""
    state: State = archive.settled()
    placed = sorted((each for each in state.blocks.values() if each.source == CHAIN), key=lambda each: each.number)
    for one, two in pairwise(each for each in placed if each.head.kind == "changes"):
        if one.head.covers.to_position == two.head.covers.from_position:
            group = Group(CHAIN, (one, two))
            _, plan = made_backup(archive.store, CHAIN, identity=uuid.uuid4().hex)
            (files,) = plan(archive.state).add
            block = join(group, identity=files.id, run="r", tables=files.tables, transactions=None)
            joined = Change("compaction", add=(block,), remove=group.ids)
            break
    else:
        return
    archive.add(lambda _: joined, check=nothing, fence=None)


def rebuild(store: CoordinationStore, under: str, names: Sequence[str], *, wait: float) -> Rebuilding | None:
    """Rebuild the store, where that is needed, from a replica which the others do not contradict by what is told.

    That is the furthest one, or else the first that may be named.

    :raises RefusedError: there is none.
    """
    places = {name: open_store(f"{under}/{name}").url for name in names if _is_there(open_store(f"{under}/{name}"))}
    refused: list[str] = []
    for source in (None, *places):
        try:
            planned = prepare(store, places, source=source)
            if not planned.is_needed:
                return None
            return carry_out(store, planned, wait=wait)
        except RefusedError as error:
            refused.append(f"from {source or 'the furthest'}: {error}")
    raise RefusedError("; ".join(refused) or "no replica is at its place")


def told_by_rebuild(done: Rebuilding | None) -> dict[str, object]:
    """Return whom a rebuilding goes on from, and whom it names as lost."""
    if done is None:
        return {"from": "", "lost": []}
    survey = done.survey
    return {"from": survey.source.name, "lost": [fate.replica.name for fate in survey.fates if fate.lost]}


def _is_there(store: ObjectStore) -> bool:
    try:
        store.head("archive.json")
    except ObjectNotFound:
        return False
    return True


def main() -> None:
    """Fork a worker for each line."""
    quorum_wait.POLL_S = turn.POLL_S = POLL_S
    if (threads := len(list(Path("/proc/self/task").iterdir()))) > 1:
        raise RuntimeError(f"{threads} threads are here, and must not be when processes are forked")
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # who ends is gone at once
    crew = []
    for line in sys.stdin:
        crew.append(os.fork())
        if not crew[-1]:
            _work(Job(**json.loads(line)))
        print(crew[-1], flush=True)
    for worker in crew:
        with suppress(ProcessLookupError):
            os.kill(worker, signal.SIGKILL)


def _work(job: Job) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.environ[VARIABLE] = job.memory
    try:
        Worker(job).run()
    finally:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)


if __name__ == "__main__":
    main()
