"""A lease is renewed while a block runs, whatever becomes of a renewal, and not after it."""

from __future__ import annotations

import threading

import pytest

from holdfast.common.errors import HoldfastError
from holdfast.replication.work.lease_renewal import renewing

PATIENCE_S = 20.0


def running(name: str) -> bool:
    return any(thread.name == name for thread in threading.enumerate())


def test_it_is_renewed_again_and_again_also_where_a_renewal_failed() -> None:
    thrice, tries = threading.Event(), list[int]()

    def renew() -> None:
        tries.append(len(tries))
        if len(tries) == 3:
            thrice.set()
        raise HoldfastError("the store is away")

    with renewing(renew, every=0.001, name="renewed lease"):
        assert running("renewed lease")
        assert thrice.wait(PATIENCE_S)
    assert not running("renewed lease")


def test_nobody_waits_for_the_next_renewal_at_the_end() -> None:
    with renewing(pytest.fail, every=3600.0, name="idle lease"):
        assert running("idle lease")
    assert not running("idle lease")


def test_the_blocks_own_error_ends_it_too() -> None:
    with pytest.raises(ZeroDivisionError), renewing(lambda: None, every=3600.0, name="failed lease"):
        raise ZeroDivisionError
    assert not running("failed lease")
