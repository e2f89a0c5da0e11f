"""Whether the last change of each key, as changes are stored, is its newest."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from holdfast.archive.scan.last_version import Sequenced

Event = tuple[int, int, int]
"""Key, position, number inside the transaction."""

BY_TIME: list[Event] = [(3, 10, 2), (1, 10, 4), (3, 20, 2), (2, 30, 2)]
BY_KEY: list[Event] = [(1, 40, 4), (1, 50, 2), (2, 40, 2), (3, 60, 2), (3, 60, 4)]


def in_sequence(records: Sequence[Sequence[Event]], step: int) -> bool:
    events = [event for record in records for event in record]
    sequenced = Sequenced([len(record) for record in records])
    places = np.arange(len(events))
    for start in range(0, len(events), step):
        some = np.array(events[start : start + step], np.int64)
        if not sequenced.go_on(places[start : start + step], some[:, 0], some[:, 1], some[:, 2]):
            return False
    return True


@pytest.mark.parametrize("step", [1, 2, 3, 100])
@pytest.mark.parametrize("records", [[BY_TIME], [BY_KEY], [BY_TIME, BY_KEY], [BY_TIME, [], BY_KEY, [(1, 70, 2)]]])
def test_records_are_in_order_by_time_or_by_key(records: list[list[Event]], step: int) -> None:
    assert in_sequence(records, step)


@pytest.mark.parametrize("step", [1, 2, 100])
@pytest.mark.parametrize(
    "records",
    [
        [BY_KEY, BY_TIME],
        [[*BY_TIME, (1, 10, 5)]],
        [[*BY_KEY, (2, 70, 2), (1, 80, 2)]],
        [[(1, 20, 2), (1, 10, 2)]],
        [[(1, 10, 2), (1, 10, 2)]],
        [[(1, 10, 4)], [(1, 10, 2)]],
    ],
    ids=["blocks", "time", "key", "positions", "same", "records"],
)
def test_anything_else_is_in_no_order(records: list[list[Event]], step: int) -> None:
    assert not in_sequence(records, step)


def test_changes_that_are_left_out_do_not_matter() -> None:
    sequenced = Sequenced([3, 3])
    for places in ([1], [2, 4]):
        lsn = np.array(places) * 10
        assert sequenced.go_on(np.array(places), np.ones(len(places), np.int64), lsn, lsn)
