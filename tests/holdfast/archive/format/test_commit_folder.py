"""Which of the numbers in the folder of commits count, whatever they hold."""

from __future__ import annotations

import json

import pytest

from holdfast.archive.format.commit_folder import StoredNumber, TipVoidedError, counting
from holdfast.common.errors import DamagedError
from holdfast.storage.contract.object_store import StoredDocument

EMPTY = DamagedError("it is empty")


def document(body: bytes) -> StoredDocument:
    return StoredDocument(body, body)


def step(number: int, void: int | None = None) -> StoredNumber:
    return StoredNumber(number, number, document(json.dumps({"sequence": number, "void": void}).encode()))


def hole(first: int, last: int) -> StoredNumber:
    return StoredNumber(first, last, DamagedError("missing"))


def numbers(*stored: StoredNumber, since: int = 0) -> list[int]:
    return [int(json.loads(each.body)["sequence"]) for _, each in counting(stored, since)]


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        ([], []),
        ([step(1), step(2)], [1, 2]),
        ([step(1), StoredNumber(2, 2, EMPTY), step(3, void=2)], [1, 3]),
        ([step(1), StoredNumber(2, 2, document(b"{")), step(3, void=2), step(4)], [1, 3, 4]),
        ([step(1), hole(2, 4), step(5, void=2)], [1, 5]),
        ([StoredNumber(1, 1, EMPTY), step(2, void=1)], [2]),
        # A void that was voided voids nothing.
        ([step(1), step(2), step(3, void=2), step(4, void=3)], [1, 2, 4]),
        ([step(1), step(2), step(3, void=2), step(4, void=2)], [1, 4]),
        ([step(1), StoredNumber(2, 2, EMPTY), step(3, void=2), StoredNumber(4, 4, EMPTY), step(5, void=4)], [1, 3, 5]),
    ],
)
def test_a_number_counts_unless_one_that_counts_voids_it(stored: list[StoredNumber], expected: list[int]) -> None:
    assert numbers(*stored) == expected


@pytest.mark.parametrize(
    "stored",
    [
        [step(1), StoredNumber(2, 2, EMPTY)],
        [step(1), StoredNumber(2, 2, EMPTY), step(3)],
        [step(1), hole(2, 4), step(5, void=3)],
        [step(1), StoredNumber(2, 2, EMPTY), step(3, void=2), StoredNumber(4, 4, EMPTY)],
    ],
)
def test_what_counts_and_cannot_be_read_is_damage_behind_what_can(stored: list[StoredNumber]) -> None:
    found = counting(stored, 0)
    assert json.loads(next(found)[1].body)["sequence"] == 1
    with pytest.raises(DamagedError):
        list(found)


@pytest.mark.parametrize("stored", [[step(3, void=2)], [step(3), step(4), step(5, void=3)]])
def test_a_commit_that_counted_cannot_be_voided_in_silence(stored: list[StoredNumber]) -> None:
    with pytest.raises(TipVoidedError, match="which counts"):
        numbers(*stored, since=2)
