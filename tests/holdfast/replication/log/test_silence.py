"""Replicas that do not answer are asked again after pauses that grow, and are told in words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.replication.log import silence
from holdfast.replication.log.replicas import ReplicaRow, replica
from holdfast.replication.log.silence import NotAsked, is_paused, note_answers, silence_words
from tests.support.replicas.replicated import Replicas

pytestmark = pytest.mark.slow

SILENT = ReplicaRow("far", "/far", 1, 1, 0.0, False, "", "", 0.0, silent_since=1000.0, ask_again_at=1600.0)


@pytest.mark.parametrize(("now", "paused"), [(1000.0, True), (1599.0, True), (1600.0, False), (2000.0, False)])
def test_a_silent_one_is_not_asked_before_its_time(now: float, paused: bool) -> None:
    assert is_paused(SILENT, now) is paused
    assert not is_paused(replace(SILENT, ask_again_at=0.0), now)


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


def test_what_is_not_known_then_is_said() -> None:
    told = NotAsked("far", "/far", "it hangs")
    assert told.describe() == {"replica": "far", "url": "/far", "why": "it hangs"}
    assert told.words == (
        "replica far (/far) could not be asked: it hangs. So it is not known whether it has executed entries that the "
        "coordination store does not have"
    )


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
