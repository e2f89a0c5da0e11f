"""Replicas that do not answer are asked again after pauses that grow, and are told in words."""

from __future__ import annotations

import pytest

from holdfast.replication.log import silence
from holdfast.replication.log.replicas import ReplicaRow, replica
from holdfast.replication.log.silence import note_answers, silence_words
from tests.support.replicas.replicated import Replicas

pytestmark = pytest.mark.slow

SILENT = ReplicaRow("far", "/far", 1, 1, 0.0, False, "", "", 0.0, silent_since=1000.0, ask_again_at=1600.0)


@pytest.mark.parametrize(
    ("now", "words"),
    [
        (1090.0, "it has not answered for 90 s, and is asked again in 8 min"),
        (1600.0, "it has not answered for 10 min, and is asked again in 0 s"),
        (900.0, "it has not answered for 0 s, and is asked again in 12 min"),
    ],
)
def test_a_pause_is_told_in_words_also_by_a_clock_that_went_back(now: float, words: str) -> None:
    assert silence_words(SILENT, now) == words


def row_of(replicas: Replicas, name: str) -> ReplicaRow:
    return replicas.coordination.run(lambda c: replica(c, replicas.archive, name))


def test_pauses_grow_to_an_hour(two: Replicas, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1_000_000.0
    monkeypatch.setattr(silence, "clock", lambda connection: now)
    pauses = []
    for _ in range(9):
        two.coordination.run(lambda c: note_answers(c, two.archive, silent=["far"]))
        row = row_of(two, "far")
        pauses.append(row.ask_again_at - now)
        now = row.ask_again_at
    assert pauses == [60, 60, 120, 240, 480, 960, 1920, 3600, 3600]


def test_an_answer_ends_the_silence_of_those_that_are_silent_alone(two: Replicas) -> None:
    before = row_of(two, "near")
    two.coordination.run(lambda c: note_answers(c, two.archive, silent=["far", "gone"], answered=["near", "gone"]))
    assert row_of(two, "far").silent_since > 0
    two.coordination.run(lambda c: note_answers(c, two.archive, answered=["far", "near"]))
    assert (row_of(two, "far").silent_since, row_of(two, "far").ask_again_at) == (0.0, 0.0)
    assert row_of(two, "near") == before
