"""What must hold after anything that can go wrong with a lock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from locking import Lease, LockBusy, LockError, Runtime, RWLock, reap
from locking.store import LockStore, StoreError
from locking.terms import MARKER_LIFE
from tests.support.locks.lockstore import FakeTime

T = TypeVar("T")

EXPIRY = 180.0
"""Seconds: lease and grace of a lock that says nothing else."""


class Checked(Protocol):
    """Whatever believes to hold a lock."""

    def check(self) -> None: ...


def stands(lease: Checked | None) -> bool:
    """Whether its holder may believe that it holds the lock."""
    return lease is not None and outcome(lease.check) is None


def must_be_safe(
    store: LockStore,
    time: FakeTime,
    runtime: Runtime,
    first: Checked | None,
    *,
    land: Callable[[], None] = lambda: None,
    after_expiry: bool = False,
) -> None:
    """Check that ``first`` and others never both hold ``r``, and that nothing stays for ever.

    :param first: what the client has whose request went wrong; it never does anything about it
    :param land: lets writes take effect whose answers were lost, as late as that
    :param after_expiry: even later: when the lease of ``first`` is over
    """
    second = _take(store, runtime)
    assert not (stands(first) and stands(second))
    if not after_expiry:
        _land_beside(second, land)
    assert not (stands(first) and stands(second))
    if second is not None:
        second.release()
    time.sleep(EXPIRY + 1)
    third = _take(store, runtime)
    assert stands(third)
    assert third is not None
    _land_beside(third, land)
    assert not stands(first)
    third.release()
    time.sleep(EXPIRY + 1)
    fourth = _take(store, runtime)
    assert fourth is not None
    fourth.release()
    time.sleep(MARKER_LIFE + EXPIRY + 1)
    reap(store, runtime=runtime)
    assert [info.key for info in store.list("").objects] == []


def _land_beside(lease: Lease | None, land: Callable[[], None]) -> None:
    """What comes late takes no lock from anybody."""
    stood = stands(lease)
    land()
    assert stands(lease) == stood


def outcome(action: Callable[[], T]) -> T | LockError | StoreError:
    """What an action returns, or its error where that is one that locks promise."""
    try:
        return action()
    except (LockError, StoreError) as error:
        return error


def _take(store: LockStore, runtime: Runtime) -> Lease | None:
    found = outcome(lambda: RWLock(store, "r", runtime=runtime).write(wait=0, renew=False))
    if isinstance(found, Lease):
        return found
    assert isinstance(found, LockBusy), found
    assert found.blockers
    return None
