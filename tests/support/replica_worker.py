"""A process that does one thing after another to the replicas of an archive, drawn at random, until it is killed."""

# ruff: noqa: T201 - what it prints is what its starter reads
from __future__ import annotations

import random
import sys
import uuid
from pathlib import Path

from holdfast.errors import HoldfastError
from holdfast.replication.recovery import recover
from holdfast.replication.replica import ReplicatedArchive
from holdfast.replication.replicas import mark_lost, replica
from holdfast.replication.store import CoordinationStore
from holdfast.replication.trimming import trim
from holdfast.replication.upkeep import sync_replica
from holdfast.storage import open_store
from locking import LockError
from tests.support.replicated import made_backup, nothing

LEASE_S = 2.0
"""Of a recovery: one that was killed is begun anew after so long."""

_WAIT_S = 5.0


class Worker:
    """Works on an archive's replicas; says `added <block>` where a backup was acknowledged."""

    def __init__(self, folder: Path, address: str, archive: str, names: list[str], seed: str) -> None:
        self._folder = folder
        self._store = CoordinationStore.open(address)
        self._archive = archive
        self._names = names
        self._random = random.Random(seed)

    def run(self) -> None:
        """Go on until killed."""
        while True:
            work = self._random.choice(
                (self._back_up, self._back_up, self._sync, self._sync, self._recover, self._trim)
            )
            try:
                work(self._random.choice(self._names))
            except (HoldfastError, LockError) as error:
                print("refused", type(error).__name__, " ".join(str(error).split()), flush=True)

    def _place(self, name: str) -> str:
        return str(self._folder / name)

    def _back_up(self, name: str) -> None:
        source = f"source_{self._random.randrange(2)}"
        archive = ReplicatedArchive.begin(open_store(self._place(name)), self._store)
        block, plan = made_backup(archive.store, source, identity=uuid.uuid4().hex)
        archive.add(plan, check=nothing, fence=None)
        print("added", block, flush=True)

    def _sync(self, name: str) -> None:
        row = self._store.run(lambda c: replica(c, self._archive, name))
        sync_replica(self._store, self._archive, row, wait=_WAIT_S)

    def _recover(self, name: str) -> None:
        if self._random.random() < 0.3:
            self._store.run(lambda c: mark_lost(c, self._archive, name, "drawn"))
        recover(self._store, self._archive, name, wait=_WAIT_S, lease=LEASE_S)

    def _trim(self, name: str) -> None:
        trim(self._store, self._archive, min_keep=0, max_keep=self._random.randrange(6))


if __name__ == "__main__":
    Worker(Path(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4].split(","), sys.argv[5]).run()
