"""A client that backs up with a quorum and reads sequentially, and writes down what it saw, until it is killed."""

from __future__ import annotations

import random
import sys
import time
import uuid
from pathlib import Path

from holdfast.common.errors import HoldfastError, OutcomeUnknownError, sentence
from holdfast.replication.log.replicas import mark_lost, replica
from holdfast.replication.log.settings import QuorumRequest
from holdfast.replication.log.store import CoordinationStore
from holdfast.replication.log.trimming import trim
from holdfast.replication.work.consistent_read import open_to_read
from holdfast.replication.work.quorum_wait import QuorumWait
from holdfast.replication.work.recovery import recover
from holdfast.replication.work.replica import ReplicatedArchive
from holdfast.replication.work.sync import sync_replica
from holdfast.storage import open_store
from locking import LockError
from locking.store import StoreOutcomeUnknown, StoreUnavailable
from tests.support.hammer.worker import Log
from tests.support.replicas.replicated import made_backup, nothing

_SIZE = 2

_WAIT_S = 5.0

_LEASE_S = 2.0
"""Of a recovery: where one was killed, another one begins after so long."""

_DEADLINES_S = (0.1, 1.0, 20.0)
"""That quorums have: some fail."""

_REFUSED = (HoldfastError, LockError, StoreOutcomeUnknown, StoreUnavailable)


class Client:
    """Writes `begun`, `added` and `failed` for backups, and `read` for reads, each with its time in nanoseconds.

    A backup whose outcome is unknown remains begun; a read that is refused, or cannot reach the store, is none.

    Beside that it does what keeps replicas in step, and loses some and makes them anew.
    """

    def __init__(self, log: Path, place: str, address: str, archive: str, names: list[str], seed: str) -> None:
        self._under = place
        self._store = CoordinationStore.open(address)
        self._archive = archive
        self._names = names
        self._random = random.Random(seed)
        self._address = address
        self._log = Log(log)

    def run(self) -> None:
        """Go on until killed."""
        while True:
            work = self._random.choice(
                (self._insert,) * 4 + (self._read,) * 8 + (self._sync,) * 2 + (self._recover, self._trim)
            )
            try:
                work(self._random.choice(self._names))
            except _REFUSED:
                continue  # somebody else was faster, or it is cut off

    def _insert(self, name: str) -> None:
        archive = ReplicatedArchive.begin(open_store(self._place(name)), self._store)
        archive.quorum_request = QuorumRequest(_SIZE, self._random.choice(_DEADLINES_S))
        block, plan = made_backup(archive.store, f"source_{self._random.randrange(3)}", identity=uuid.uuid4().hex)
        self._log.write("begun", time.monotonic_ns(), block=block)
        try:
            archive.add(plan, check=nothing, fence=None)
            waiting = QuorumWait(self._store, self._archive, block, name)
            waiting.check_success(waiting.decided())
        except OutcomeUnknownError:
            return
        except _REFUSED as error:  # whatever else it is told says that nothing of it counts
            self._log.write("failed", time.monotonic_ns(), block=block, said=sentence(error))
        else:
            self._log.write("added", time.monotonic_ns(), block=block)

    def _place(self, name: str) -> str:
        return f"{self._under}/{name}"

    def _sync(self, name: str) -> None:
        row = self._store.run(lambda c: replica(c, self._archive, name))
        sync_replica(self._store, self._archive, row, wait=_WAIT_S)

    def _recover(self, name: str) -> None:
        if self._random.random() < 0.3:
            self._store.run(lambda c: mark_lost(c, self._archive, name, "drawn"))
        recover(self._store, self._archive, name, wait=_WAIT_S, lease=_LEASE_S)

    def _trim(self, name: str) -> None:
        trim(self._store, self._archive, min_keep=0, max_keep=self._random.randrange(6))

    def _read(self, name: str) -> None:
        since = time.monotonic_ns()
        opened = open_to_read(open_store(self._place(name)), "sequential", address=self._address)
        self._log.write("read", time.monotonic_ns(), since=since, blocks=sorted(opened.state.blocks))


if __name__ == "__main__":
    Client(Path(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4], sys.argv[5].split(","), sys.argv[6]).run()
