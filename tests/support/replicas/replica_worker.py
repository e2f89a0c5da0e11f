"""A process that does one thing after another to the replicas of an archive, drawn at random, until it is killed."""

# ruff: noqa: T201 - what it prints is what its starter reads
from __future__ import annotations

import random
import sys
import uuid
from datetime import timedelta

from holdfast.archive import Archive, locks
from holdfast.archive.maintenance.retention import parse_rules
from holdfast.archive.maintenance.truncation import truncate
from holdfast.archive.maintenance.vacuum import vacuum
from holdfast.common.errors import HoldfastError, OutcomeUnknownError
from holdfast.replication.log.errors import QuorumFailedError
from holdfast.replication.log.leader import lead, resign
from holdfast.replication.log.replicas import mark_lost, replica
from holdfast.replication.log.settings import QuorumRequest
from holdfast.replication.log.store import CoordinationStore
from holdfast.replication.log.trimming import trim
from holdfast.replication.work.quorum_wait import QuorumWait
from holdfast.replication.work.recovery import recover
from holdfast.replication.work.replica import ReplicatedArchive
from holdfast.replication.work.replica_vacuum import ReplicaPermit
from holdfast.replication.work.sync import sync_replica
from holdfast.storage import open_store
from locking import LockError, Owner
from tests.support.replicas.replicated import made_backup, nothing

LEASE_S = 2.0
"""Of a recovery and of a leader: where one was killed, another one begins after so long."""

_WAIT_S = 5.0

_DEADLINES_S = (0.1, 1.0, 10.0)
"""That quorums have: some fail."""


class Worker:
    """Works on an archive's replicas.

    Says `added <block>` where a backup was acknowledged, `failed <block>` where one was taken back for want of its
    quorum, `unknown <block>` where nobody knows, and `deleted <files>` after a vacuum.

    :param place: the URL or path under which each replica is, by its name.
    """

    def __init__(self, place: str, address: str, archive: str, names: list[str], seed: str) -> None:
        self._under = place
        self._store = CoordinationStore.open(address)
        self._archive = archive
        self._names = names
        self._random = random.Random(seed)

    def run(self) -> None:
        """Go on until killed."""
        print("at work", flush=True)
        while True:
            work = self._random.choice(
                (self._back_up,) * 2
                + (self._back_up_with_quorum,) * 2
                + (self._sync,) * 3
                + (self._recover, self._trim, self._truncate, self._vacuum)
            )
            try:
                work(self._random.choice(self._names))
            except (HoldfastError, LockError) as error:
                print("refused", type(error).__name__, " ".join(str(error).split()), flush=True)

    def _place(self, name: str) -> str:
        return f"{self._under}/{name}"

    def _back_up(self, name: str) -> None:
        source = f"source_{self._random.randrange(2)}"
        archive = ReplicatedArchive.begin(open_store(self._place(name)), self._store)
        block, plan = made_backup(archive.store, source, identity=uuid.uuid4().hex)
        archive.add(plan, check=nothing, fence=None)
        print("added", block, flush=True)

    def _back_up_with_quorum(self, name: str) -> None:
        source = f"source_{self._random.randrange(2)}"
        archive = ReplicatedArchive.begin(open_store(self._place(name)), self._store)
        archive.quorum_request = QuorumRequest(2, self._random.choice(_DEADLINES_S))
        block, plan = made_backup(archive.store, source, identity=uuid.uuid4().hex)
        try:
            archive.add(plan, check=nothing, fence=None)
            waiting = QuorumWait(self._store, self._archive, block, name)
            waiting.check_success(waiting.decided())
        except QuorumFailedError:
            print("failed", block, flush=True)
        except OutcomeUnknownError:
            print("unknown", block, flush=True)
        else:
            print("added", block, flush=True)

    def _sync(self, name: str) -> None:
        row = self._store.run(lambda c: replica(c, self._archive, name))
        sync_replica(self._store, self._archive, row, wait=_WAIT_S)

    def _recover(self, name: str) -> None:
        if self._random.random() < 0.3:
            self._store.run(lambda c: mark_lost(c, self._archive, name, "drawn"))
        recover(self._store, self._archive, name, wait=_WAIT_S, lease=LEASE_S)

    def _truncate(self, name: str) -> None:
        archive = ReplicatedArchive.begin(open_store(self._place(name)), self._store)
        _, acting = archive.in_use()
        epoch = self._store.run(lambda c: lead(c, acting, lease=LEASE_S))
        archive.leader_epoch = epoch
        truncate(archive, parse_rules([f"last={self._random.randrange(1, 4)}"]), check=nothing, fence=None)
        self._store.run(lambda c: resign(c, acting, epoch))

    def _vacuum(self, name: str) -> None:
        """Delete without any grace, and without the locks that backups do not hold here either."""
        store = open_store(self._place(name))
        with locks.acquire(store, "vacuum", owner=Owner(), purpose="test", wait=_WAIT_S) as held:
            _, acting = ReplicatedArchive.begin(store, self._store).in_use()
            permit = ReplicaPermit(self._store, self._archive, acting)
            done = vacuum(
                Archive.open(store), check=held.check, fence=held.fence, grace=timedelta(0), wait=1.0, permit=permit
            )
        print("deleted", done.files, flush=True)

    def _trim(self, name: str) -> None:
        trim(self._store, self._archive, min_keep=0, max_keep=self._random.randrange(6))


if __name__ == "__main__":
    Worker(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4].split(","), sys.argv[5]).run()
