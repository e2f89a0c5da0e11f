"""Copies of the coordination store are put back in the middle of everything, and nothing is lost in silence."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.archive.format.last_seen import VARIABLE
from holdfast.replication.log.store import CoordinationStore
from tests.support.replicas.put_back import Walk
from tests.support.replicas.replicated import Replicas

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    "seed", [*range(2), *(pytest.param(seed, marks=pytest.mark.exhaustive) for seed in range(2, 200))]
)
@pytest.mark.parametrize(
    "others",
    [
        pytest.param(("far",), marks=pytest.mark.exhaustive),
        ("far", "off"),
        pytest.param(("far", "off", "east", "west"), marks=pytest.mark.exhaustive),
    ],
    ids=["two", "three", "five"],
)
def test_whatever_is_done_with_copies_nothing_is_lost_in_silence(
    tmp_path: Path,
    coordination: CoordinationStore,
    others: tuple[str, ...],
    seed: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(VARIABLE, "off")
    given = Replicas.copied(tmp_path, coordination, *others)
    walk = Walk(given, ("near", *others), seed)
    walk.go(60)
    walk.end()
