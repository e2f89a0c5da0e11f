"""A replica in whose archive a refused write has left an empty commit: given up there, its log goes on."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from holdfast.archive import Archive
from holdfast.archive.format.commits import commit_key
from holdfast.archive.void_number import void
from holdfast.common.errors import DamagedError
from tests.support.replicas.replicated import Replicas, nothing


def leave_empty(two: Replicas, name: str) -> int:
    """Leave an empty object, long ago, in the place of a replica's next commit."""
    number = Archive.open(two.place(name)).state.sequence + 1
    path = Path(two.place(name).url) / commit_key(number)
    path.touch()
    os.utime(path, (0, 0))
    return number


@pytest.mark.parametrize("name", ["near", "far"])
def test_an_entry_that_a_store_refused_is_executed_behind_a_void_number(two: Replicas, name: str) -> None:
    other = "far" if name == "near" else "near"
    two.back_up(other)
    before = Archive.open(two.place(name)).state
    number = leave_empty(two, name)
    with pytest.raises(DamagedError, match="is empty"):
        two.sync(name)
    made = void(two.place(name), number, reason="the quota was full", check=nothing, fence=None)
    assert (made.sequence, made.log) == (number + 1, before.log)
    assert two.sync(name).entries == 1
    two.back_up(name)
    two.sync(other)
    states = [Archive.open(two.place(each)).state for each in (name, other)]
    assert states[0].blocks.keys() == states[1].blocks.keys()
    assert [state.log.index for state in states if state.log] == [2, 2]
    numbers = [{key: placed.number for key, placed in state.blocks.items()} for state in states]
    assert numbers[0] == numbers[1]
    assert states[0].void == {number}
