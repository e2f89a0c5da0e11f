from __future__ import annotations

import pytest

from holdfast.archive.lockplan import ORDER, PLANS, plan
from holdfast.errors import UsageError


def test_a_backup_shares_the_format_and_owns_its_sources() -> None:
    locks = [(lock.resource, lock.mode) for lock in plan("backup", ["shop_db", "crm"])]
    assert locks == [("format", "R"), ("ingest-crm", "W"), ("ingest-shop_db", "W")]


def test_a_restore_shares_the_format_and_the_history() -> None:
    assert [(lock.resource, lock.mode) for lock in plan("restore")] == [("format", "R"), ("history", "R")]


@pytest.mark.parametrize("operation", sorted(PLANS))
def test_every_plan_takes_its_locks_in_the_one_order(operation: str) -> None:
    names = [lock.resource.partition("-")[0] for lock in plan(operation, ["a", "b"])]
    assert [ORDER.index(name) for name in names] == sorted(ORDER.index(name) for name in names)
    assert set(PLANS[operation]) <= set(ORDER)


def test_an_unknown_operation_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match="backup"):
        plan("bakcup")
