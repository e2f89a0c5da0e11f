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

from bench.support.versitygw import running_versitygw
from holdfast.archive import Archive
from holdfast.replication.log import quorum, schema
from holdfast.replication.log.replicas import log_state, replicas
from holdfast.replication.log.store import CoordinationStore
from tests.support.jobs.command import until
from tests.support.replicas.replicated import OnS3, Replicas

pytestmark = pytest.mark.slow

NAMES = ("near", "far", "off")
ROOT = Path(__file__).parents[3]

_REFUSED = ("BusyError", "EpochOverError", "LockBusy", "LostReplicaError", "RefusedError")
_SAID = ("at work", "added ", "failed ", "unknown ", "deleted ")
_EXPECTED = (*_SAID, "Ending lock ", "Waiting for replica ", *(f"refused {name}" for name in _REFUSED))
"""What a worker may say: that somebody else was faster or is waited for, and that a killed one's lock was ended."""


def _is_expected(line: str) -> bool:
    # Between its append and its commit, another worker may have said that the replica is lost.
    if line.startswith("refused OutcomeUnknownError entry ") and "is lost (drawn)" in line:
        return True
    return line.startswith(_EXPECTED) and "does not follow" not in line


@dataclass
class Crew:
    """Processes that are killed and replaced.

    :ivar added: blocks whose backups were acknowledged; `failed`: those that were taken back for want of their quorum.
    :ivar deleted: files that vacuums have deleted.
    """

    three: Replicas
    random: random.Random
    folder: Path
    count: int = 0
    added: set[str] = field(default_factory=set)
    failed: set[str] = field(default_factory=set)
    deleted: int = 0
    kills: int = 0

    @contextmanager
    def worker(self) -> Iterator[Path]:
        """Run one, and kill it after a while; yield the file of what it says."""
        self.count += 1
        said = self.folder / f"worker-{self.count}"
        with said.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.replicas.replica_worker", self.three.under,
                 self.three.coordination.url, self.three.archive, ",".join(NAMES), str(self.random.random())],
                stdout=output, stderr=subprocess.STDOUT, cwd=ROOT,
            )  # fmt: skip
        try:
            yield said
        finally:
            process.kill()
            process.wait()
            self.kills += 1
        lines = said.read_text().splitlines()
        assert [line for line in lines if not _is_expected(line)] == []
        for word, blocks in (("added", self.added), ("failed", self.failed)):
            blocks.update(line.split()[1] for line in lines if line.startswith(f"{word} "))
        self.deleted += sum(int(line.split()[1]) for line in lines if line.startswith("deleted "))

    def work(self, rounds: int) -> None:
        """Have three at work, of which one is killed after the other."""
        with ExitStack() as others:
            stay = [others.enter_context(self.worker()) for _ in range(2)]
            for _ in range(rounds):
                with self.worker() as said:
                    until(said.read_text, "a worker to begin")
                    time.sleep(0.5 + self.random.random())
            until(lambda: any("added " in said.read_text() for said in stay), "a backup to be acknowledged")


def settle(three: Replicas) -> None:
    """Bring all replicas to the head of the log, as maintenance does."""
    run = three.coordination.run
    run(lambda c: c.execute(schema.replicas.update().values(active_until=0.0)))
    for row in run(lambda c: replicas(c, three.archive)):
        if row.is_lost:
            three.recover(row.name)
    for _ in range(2):  # the first decides what is pending, and the second executes what takes that back
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
    assert not crew.failed & states[0].blocks.keys()
    assert three.coordination.run(lambda c: quorum.pending(c, three.archive)) == []
    assert all(three.is_whole(name) for name in NAMES)


def work(three: Replicas, folder: Path, seed: int, rounds: int) -> None:
    crew = Crew(three, random.Random(seed), folder)
    crew.work(rounds)
    assert len(crew.added) >= rounds // 2
    assert (crew.deleted and crew.failed) or rounds < 50  # a few rounds may come to no vacuum, or no failure
    settle(three)
    check(three, crew)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("seed", "rounds"), [(1, 6), (2, 120), (3, 120)])
def test_replicas_are_equal_and_have_every_backup_whoever_was_killed(
    three: Replicas, tmp_path: Path, seed: int, rounds: int
) -> None:
    work(three, tmp_path, seed, rounds)


@pytest.mark.service
@pytest.mark.parametrize("both", ["postgresql"], indirect=True)
@pytest.mark.exhaustive
@pytest.mark.parametrize(("seed", "rounds"), [(4, 2), (5, 60)])
def test_they_are_so_on_object_storage_with_a_store_in_postgresql(
    both: CoordinationStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, rounds: int
) -> None:
    with running_versitygw() as s3:
        s3.make_bucket(OnS3.BUCKET)
        for name, value in s3.environment.items():
            monkeypatch.setenv(name, value)
        work(OnS3.begun(tmp_path, both, "far", "off"), tmp_path, seed, rounds)
