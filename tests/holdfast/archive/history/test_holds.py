"""Holds in the way of whatever would break them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from holdfast.archive.history.holds import check_holds, standing
from holdfast.common.errors import RefusedError
from tests.support.archives.backups import Backups


def test_changes_in_the_midst_of_which_a_point_is_held_cannot_be_removed() -> None:
    made = Backups()
    made.full(opened=True)
    for _ in range(3):
        made.wait(timedelta(hours=1))
        made.write(1, 2)
        made.changes()
    held = made.hold(made.at(made.intervals()[0], made.log[3].lsn))
    kept = made.state
    made.remove("b4")
    check_holds(kept, made.state)
    made.remove("b3")
    with pytest.raises(RefusedError, match=held.id):
        check_holds(kept, made.state)


def test_a_point_of_a_server_that_was_replaced_is_not_kept_by_the_new_ones_positions() -> None:
    made = Backups()
    made.full(opened=True)
    made.wait(timedelta(hours=1))
    made.write(1, 2)
    made.changes()
    held = made.hold(made.moment("commit:2"))
    made.wait(timedelta(days=1))
    made.fail_over(0x900)
    made.full(opened=True)
    made.write(*[1] * 200)
    made.changes()
    before = made.state
    made.remove("b1", "b2")
    assert standing(made.intervals(), held)[0] == 1
    with pytest.raises(RefusedError, match=held.id):
        check_holds(before, made.state)
