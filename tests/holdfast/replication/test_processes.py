"""Real processes that work on the same replicas and are killed at any time: in the end all are equal and whole."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from holdfast.archive import Archive
from holdfast.replication import schema
from holdfast.replication.replicas import log_state, replicas
from holdfast.replication.store import CoordinationStore
from tests.support.replicated import Replicas

NAMES = ("near", "far", "off")
ROOT = Path(__file__).parents[3]


_REFUSED = ("BusyError", "EpochOverError", "LockBusy", "LostReplicaError", "RefusedError")
_EXPECTED = ("added ", "deleted ", "Ending lock ", *(f"refused {name}" for name in _REFUSED))
"""What a worker may say: that somebody else was faster, and that a killed one's lock was ended."""


def _is_expected(line: str) -> bool:
    # Between its append and its commit, another worker may have said that the replica is lost.
    if line.startswith("refused OutcomeUnknownError entry ") and "is lost (drawn)" in line:
        return True
    return line.startswith(_EXPECTED) and "does not follow" not in line


@dataclass
class Crew:
    """Processes that are killed and replaced.

    :ivar added: blocks whose backups were acknowledged.
    :ivar deleted: files that vacuums have deleted.
    """

    three: Replicas
    random: random.Random
    folder: Path
    count: int = 0
    added: set[str] = field(default_factory=set)
    deleted: int = 0
    kills: int = 0

    @contextmanager
    def worker(self) -> Iterator[None]:
        """Run one, and kill it after a while."""
        self.count += 1
        said = self.folder / f"worker-{self.count}"
        with said.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.replica_worker", self.three.folder, self.three.coordination.url,
                 self.three.archive, ",".join(NAMES), str(self.random.random())],
                stdout=output, stderr=subprocess.STDOUT, cwd=ROOT,
            )  # fmt: skip
        try:
            yield
        finally:
            process.kill()
            process.wait()
            self.kills += 1
        lines = said.read_text().splitlines()
        assert [line for line in lines if not _is_expected(line)] == []
        self.added.update(line.split()[1] for line in lines if line.startswith("added "))
        self.deleted += sum(int(line.split()[1]) for line in lines if line.startswith("deleted "))

    def work(self, rounds: int) -> None:
        """Have three at work, of which one is killed after the other."""
        with ExitStack() as others:
            others.enter_context(self.worker())
            others.enter_context(self.worker())
            for _ in range(rounds):
                with self.worker():
                    time.sleep(1.2 + self.random.random())  # its imports take a second


def settle(three: Replicas) -> None:
    """Bring all replicas to the head of the log, as maintenance does."""
    run = three.coordination.run
    run(lambda c: c.execute(schema.replicas.update().values(active_until=0.0)))
    for row in run(lambda c: replicas(c, three.archive)):
        if row.is_lost:
            three.recover(row.name)
    for name in NAMES:
        three.sync(name)


def truncated(three: Replicas) -> set[str]:
    """Return the blocks that truncations have removed, as the commits of the replicas tell together."""
    commits = (commit for name in NAMES for commit in Archive.open(three.place(name)).commits())
    return {block for commit in commits if commit.kind == "truncation" for block in commit.remove}


def check(three: Replicas, crew: Crew) -> None:
    states = [three.state(name) for name in NAMES]
    head = three.coordination.run(lambda c: log_state(c, three.archive)).head
    assert [state.log.index for state in states if state.log] == [head] * 3
    assert len({frozenset(state.blocks) for state in states}) == 1
    assert len({tuple(sorted(state.ends.items())) for state in states}) == 1
    assert crew.added <= states[0].blocks.keys() | truncated(three)
    assert all(three.is_whole(name) for name in NAMES)


@pytest.mark.parametrize(
    ("seed", "rounds"),
    [(1, 6), pytest.param(2, 120, marks=pytest.mark.soak), pytest.param(3, 120, marks=pytest.mark.soak)],
)
def test_replicas_are_equal_and_have_every_backup_whoever_was_killed(
    three: Replicas, coordination: CoordinationStore, tmp_path: Path, seed: int, rounds: int
) -> None:
    crew = Crew(three, random.Random(seed), tmp_path)
    crew.work(rounds)
    assert len(crew.added) >= rounds
    assert crew.deleted or rounds < 100  # a few rounds may come to no vacuum
    settle(three)
    check(three, crew)
