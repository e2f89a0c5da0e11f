"""Locks in an object store, with no lock server: put-and-verify transactions, a mutex, a read-write lock.

Imports nothing of ours.

    from locking import RWLock, SharedFolder

    with RWLock(SharedFolder("/mnt/shared"), "history").write(purpose="truncation", wait=30.0) as lease:
        ...
        lease.check()

Instead of the folder, anything with the methods of :class:`locking.LockStore` will do. Locks give order, not safety: a
holder that was suspended past its lease cannot be stopped, so what it writes must be guarded, too.
"""

from __future__ import annotations

from locking.attach import AttachedLease, InvalidHandle, LeaseHandle, attach, release_handle
from locking.ending import Ended, end, reap
from locking.errors import (
    InvalidLockName,
    LockBusy,
    LockError,
    LockLost,
    LockNotFound,
    LockOvertaken,
    LockStateUnknown,
)
from locking.folder import Look
from locking.info import LockInfo, blockers, inspect, look_into
from locking.lease import Lease
from locking.owner import Liveness, Owner, liveness
from locking.rules import Ruling, Verdict, View
from locking.runtime import Clock, Runtime
from locking.rwlock import Mutex, RWLock
from locking.shared_folder import SharedFolder
from locking.store import LockStore
from locking.terms import Terms
from locking.transaction import Commit, ExclusiveWrite

__version__ = "0.1.0"  # that of Holdfast, which is released together with it

__all__ = [
    "AttachedLease",
    "Clock",
    "Commit",
    "Ended",
    "ExclusiveWrite",
    "InvalidHandle",
    "InvalidLockName",
    "Lease",
    "LeaseHandle",
    "Liveness",
    "LockBusy",
    "LockError",
    "LockInfo",
    "LockLost",
    "LockNotFound",
    "LockOvertaken",
    "LockStateUnknown",
    "LockStore",
    "Look",
    "Mutex",
    "Owner",
    "RWLock",
    "Ruling",
    "Runtime",
    "SharedFolder",
    "Terms",
    "Verdict",
    "View",
    "attach",
    "blockers",
    "end",
    "inspect",
    "liveness",
    "look_into",
    "reap",
    "release_handle",
]
