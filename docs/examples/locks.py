"""The locks alone: one writer or many readers of a name, among all processes that use one store."""

from __future__ import annotations

import sys

from locking import LockBusy, RWLock, SharedFolder


def rebuild(folder: str) -> str:
    """Do some work under a write lock and say how it went.

    :param folder: on this machine, or on a file server that several machines share.
    """
    lock = RWLock(SharedFolder(folder), "price-list")
    try:
        with lock.write(purpose="rebuild", wait=5.0) as lease:
            # ... long work; the lease is renewed from a thread meanwhile ...
            lease.check()  # raises LockLost: do this before anything that cannot be undone
            return "rebuilt"
    except LockBusy as busy:
        return f"not now: {busy}"  # names who holds it, since when and what for


if __name__ == "__main__":
    print(rebuild(sys.argv[1]))  # noqa: T201 - this is an example
