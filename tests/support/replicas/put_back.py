"""A walk of backups, reads, losses and rebuildings while copies of the coordination store are put back.

Each step is one of the shipped operations, with any of the replicas away. What a client was told is written down: so
it can be said whether anything was lost in silence.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from holdfast.archive.format.last_seen import VARIABLE, PutBackError
from holdfast.common.errors import HoldfastError, RefusedError
from holdfast.replication.log.errors import LostReplicaError
from holdfast.replication.log.replicas import ReplicaRow, replicas
from holdfast.replication.log.settings import QuorumRequest
from holdfast.replication.log.trimming import trim
from holdfast.replication.work import membership
from holdfast.replication.work.consistent_read import open_to_read
from holdfast.replication.work.quorum_wait import QuorumWait
from holdfast.replication.work.rebuild_store import prepare
from holdfast.replication.work.rebuild_store import rebuild as carry_out
from locking import LockError
from locking.store import StoreError
from tests.support.replicas.rebuilt import copied, furthest
from tests.support.replicas.replicated import Replicas, nothing

REFUSALS = (HoldfastError, LockError, StoreError)


@dataclass
class Walk:
    """A walk by a seed.

    :param names: of the replicas at the beginning.
    :ivar told: blocks of backups that a quorum has acknowledged; `plain`: of those that one replica has.
    :ivar steps: what was done, in words.
    """

    given: Replicas
    names: tuple[str, ...]
    seed: int
    told: set[str] = field(default_factory=set)
    plain: set[str] = field(default_factory=set)
    steps: list[str] = field(default_factory=list)
    _copies: list[Callable[[], None]] = field(default_factory=list)
    _away: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._choose = random.Random(self.seed)

    def go(self, count: int) -> None:
        """Take so many steps."""
        choose = self._choose
        works: list[Callable[[str], None]] = [
            *[self._quorum] * 3, *[self._plain] * 2, *[self._sync] * 3, *[self._read] * 3, *[self._lose] * 1,
            *[self._recover] * 2, self._trim, *[self._copy] * 1, *[self._put_back] * 2, self._remove, self._add,
            self._rebuild, self._lose_all, self._elect,
        ]  # fmt: skip
        for _ in range(count):
            work, name = choose.choice(works), choose.choice(self.names)
            if work != self._rebuild:
                self._leave({each for each in self.names if each != name and choose.random() < 0.4})
            words = f"{work.__name__.strip('_')} {name}"
            # On one of two machines that remember what they have seen, or on one that does not.
            os.environ[VARIABLE] = choose.choice(("off", *(str(self.given.folder / f"seen-{each}") for each in "ab")))
            try:
                work(name)
            except PutBackError as error:
                raise AssertionError(f"a replica that is well is refused: {error}: {self.steps}") from error
            except REFUSALS as error:
                words += f": {type(error).__name__}"
            self.steps.append(words)

    def _quorum(self, name: str) -> None:
        archive = self.given.open(name)
        archive.quorum_request = QuorumRequest(self._choose.randrange(2, len(self.names) + 1))
        block = archive.add(self.given.backup(archive.store, f"of_{name}"), check=nothing, fence=None).add[0].id
        waiting = QuorumWait(self.given.coordination, self.given.archive, block, name)
        waiting.check_success(waiting.decided(patience=0))
        self.told.add(block)

    def _plain(self, name: str) -> None:
        archive = self.given.open(name)
        self.plain.add(
            archive.add(self.given.backup(archive.store, f"plain_{name}"), check=nothing, fence=None).add[0].id
        )

    def _sync(self, name: str) -> None:
        self.given.sync(name)

    def _read(self, name: str) -> None:
        shown = open_to_read(self.given.place(name), "sequential", address=self.given.coordination.url).state.blocks
        if lacking := self.told - shown.keys():
            raise AssertionError(f"a sequential read at {name} does not show {sorted(lacking)}: {self.steps}")

    def _lose(self, name: str) -> None:
        rows = self.given.coordination.run(lambda c: replicas(c, self.given.archive))
        if sum(not row.is_lost for row in rows) > 1:
            self.given.lose(name)

    def _lose_all(self, name: str) -> None:
        rows = self.given.coordination.run(lambda c: replicas(c, self.given.archive))
        self.given.lose(*(row.name for row in rows))

    def _elect(self, name: str) -> None:
        membership.elect(self.given.coordination, self.given.archive, name)

    def _elect_furthest(self) -> None:
        self._elect(furthest(self.given.coordination, self.given.archive))

    def _recover(self, name: str) -> None:
        self.given.recover(name)

    def _trim(self, name: str) -> None:
        self.given.change(name, active_until=0.0)
        trim(self.given.coordination, self.given.archive, min_keep=0, max_keep=1)

    def _copy(self, name: str) -> None:
        self._copies.append(copied(self.given))

    def _put_back(self, name: str) -> None:
        if self._copies:
            self._copies[len(self.steps) % len(self._copies)]()

    def _leave(self, away: set[str]) -> None:
        """Have the places of some replicas be away, and all others be there."""
        for each in self.names:
            here, there = self.given.folder / each, self.given.folder / f"{each}-away"
            if each in self._away and each not in away:
                if here.exists():
                    shutil.rmtree(here)  # whoever looked for the replica there may have left folders of locks
                there.rename(here)
            elif each in away and each not in self._away and here.exists():
                here.rename(there)
        self._away = {each for each in self.names if (self.given.folder / f"{each}-away").exists()}

    def _remove(self, name: str) -> None:
        if name != self.names[0]:
            membership.remove(self.given.coordination, self.given.archive, name)

    def _add(self, name: str) -> None:
        membership.add(self.given.coordination, self.given.archive, name, self.given.place(name).url)
        self.given.recover(name)

    def _rebuild(self, name: str) -> None:
        self._leave(set())
        self.rebuild()

    def rebuild(self) -> None:
        """Rebuild the store from the replica that the others do not contradict by what a quorum has acknowledged."""
        given = self.given
        places = {name: given.place(name).url for name in self.names if (given.folder / name / "archive.json").exists()}
        refused = ""
        for source in (None, *places):
            try:
                planned = prepare(given.coordination, places, source=source)
                if planned.is_needed:
                    carry_out(given.coordination, planned)
                return
            except RefusedError as error:
                refused = str(error)
        raise AssertionError(f"no replica can be gone on from: {refused}: {self.steps}")

    def _rows(self) -> list[ReplicaRow]:
        return self.given.coordination.run(lambda c: replicas(c, self.given.archive))

    def end(self) -> None:
        """Bring all places back, have all replicas be equal again, and look for what was acknowledged."""
        self._leave(set())
        self.rebuild()
        given = self.given
        for name in [row.name for row in self._rows() if not row.is_lost]:
            with suppress(LostReplicaError, RefusedError):  # one that is behind a copy which was put back
                given.sync(name)
        with suppress(RefusedError):  # where one is good
            self._elect_furthest()
        rows = self._rows()
        for row in rows:
            if row.is_lost:
                given.recover(row.name)
        for _ in range(2):
            for row in rows:
                given.sync(row.name)
        states = {row.name: given.state(row.name) for row in rows}
        (first, *others) = states.values()
        assert all(state.blocks.keys() == first.blocks.keys() for state in others), self.steps
        assert self.told <= first.blocks.keys(), (sorted(self.told - first.blocks.keys()), self.steps)
        kept = first.blocks.keys() | {block for state in states.values() for block in state.aside}
        assert self.plain <= kept, (sorted(self.plain - kept), self.steps)
