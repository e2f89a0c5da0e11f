"""Real processes are killed on replicas whose store is put back from copies: nothing is lost in silence.

`HOLDFAST_SEED=n` chooses the operations, kills and copies of an earlier run again, and not what comes of them.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bench.support.versitygw import running_versitygw
from holdfast.replication.log.store import CoordinationStore
from tests.support.replicas.old_store_hammer import Hammer
from tests.support.replicas.replicated import OnS3, Replicas

pytestmark = pytest.mark.slow

SEEDS = [int(os.environ["HOLDFAST_SEED"])] if "HOLDFAST_SEED" in os.environ else range(30)

NAMES = ("near", "far", "off")
FIVE = (*NAMES, "east", "west")


def hammered(
    given: Replicas, names: tuple[str, ...], folder: Path, seed: int, seconds: float, *, puts_back: bool = True
) -> None:
    hammer = Hammer(given, names, seed, folder / "history", puts_back=puts_back)
    try:
        hammer.go(seconds)
        hammer.end()
        hammer.judge()
    finally:
        print(f"Seed {seed}, histories in {hammer.folder}: {dict(hammer.tally)}")  # noqa: T201 - what failed


def test_nothing_is_lost_in_silence_whoever_is_killed_and_whatever_copy_is_put_back(
    three: Replicas, tmp_path: Path
) -> None:
    hammered(three, NAMES, tmp_path, SEEDS[0], 6)


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("names", [NAMES, FIVE], ids=["three", "five"])
def test_nor_is_it_in_the_long_run(
    coordination: CoordinationStore, tmp_path: Path, names: tuple[str, ...], seed: int
) -> None:
    hammered(Replicas.begun(tmp_path, coordination, *names[1:]), names, tmp_path, seed, 30)


@pytest.mark.exhaustive
@pytest.mark.service
@pytest.mark.parametrize("both", ["postgresql"], indirect=True)
@pytest.mark.parametrize("seed", SEEDS[:5])
def test_nor_is_it_with_a_store_in_postgresql(both: CoordinationStore, tmp_path: Path, seed: int) -> None:
    hammered(Replicas.begun(tmp_path, both, *NAMES[1:]), NAMES, tmp_path, seed, 30)


@pytest.mark.exhaustive
@pytest.mark.service
@pytest.mark.parametrize("both", ["postgresql"], indirect=True)
def test_on_object_storage_nothing_contradicts_a_store_that_is_not_put_back_whoever_is_killed(
    both: CoordinationStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_versitygw() as s3:
        s3.make_bucket(OnS3.BUCKET)
        for name, value in s3.environment.items():
            monkeypatch.setenv(name, value)
        hammered(OnS3.begun(tmp_path, both, *NAMES[1:]), NAMES, tmp_path, SEEDS[0], 30, puts_back=False)
