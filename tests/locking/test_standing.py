"""Whether a held lock still stands, by one look at its folder."""

from __future__ import annotations

import pytest

from locking import LockLost
from locking.folder import LockFolder, Look, must_stand
from locking.names import Mode
from tests.support.locks.lockstore import MemoryStore
from tests.support.locks.looks import claim, look, txn

OWN = 5
LEASE = 100.0


def standing(seen: Look, mode: Mode = "W") -> float:
    return must_stand(seen, LockFolder(MemoryStore(), "locks", "a"), mode=mode, txn=txn(OWN), lease=LEASE)


@pytest.mark.parametrize("age", [0, 1, 100, 101])
def test_the_age_of_a_lock_that_stands_is_told(age: float) -> None:
    """A store may round both times down to a second."""
    assert standing(look(claim(OWN, "W", target=10), now=10 + age)) == age


WRITER, READER = claim(7, "W", target=0), claim(7, "R", target=0)


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        (look(claim(OWN, "W", target=0), dead={OWN: 0}), "Another client ended the lock of a"),
        (look(dead={OWN: 0}), "Another client ended the lock of a"),
        (look(), "The lock of a is gone from the store"),
        (look(claim(OWN, "W", intent=0)), "The lock of a is gone from the store"),
        (look(claim(OWN, "W", target=0), now=101.5), "The lease of a is over by the store's clock"),
        (look(claim(OWN, "W", target=0), WRITER), f"a has another holder .txn {txn(7)}. beside us"),
        (look(claim(OWN, "W", target=0), READER), f"a has another holder .txn {txn(7)}. beside us"),
        (look(claim(OWN, "W", target=0), WRITER, now=999), "a has another holder"),
    ],
)
def test_a_lock_that_does_not_stand_is_lost_and_says_why(seen: Look, said: str) -> None:
    with pytest.raises(LockLost, match=rf"^{said}.*\(txn {txn(OWN)}\)\.$"):
        standing(seen)


def test_readers_stand_beside_each_other_and_not_beside_a_writer() -> None:
    mine = claim(OWN, "R", target=0)
    assert standing(look(mine, READER, now=3), "R") == 3
    with pytest.raises(LockLost, match="another holder"):
        standing(look(mine, WRITER), "R")


def test_those_that_only_ask_or_were_ended_are_no_holders() -> None:
    mine = claim(OWN, "W", target=0)
    assert standing(look(mine, claim(7, "W", intent=0), claim(8, "R", intent=0), now=3)) == 3
    assert standing(look(mine, WRITER, dead={7: 0}, now=3)) == 3
