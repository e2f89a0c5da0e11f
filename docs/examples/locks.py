"""The locks alone: one writer or many readers of a name, among all processes that use one store."""

from __future__ import annotations

import sys

from holdfast.storage import open_store
from locking import LockBusy, RWLock


def rebuild(url: str) -> str:
    """Do some work under a write lock and say how it went.

    :param url: a folder, `s3://…`, `az://…` or `gs://…`; it need not be an archive.
    """
    lock = RWLock(open_store(url), "price-list")
    try:
        with lock.write(purpose="rebuild", wait=5.0) as lease:
            # ... long work; the lease is renewed from a thread meanwhile ...
            lease.check()  # raises LockLost: do this before anything that cannot be undone
            return "rebuilt"
    except LockBusy as busy:
        return f"not now: {busy}"  # names who holds it, since when and what for


if __name__ == "__main__":
    print(rebuild(sys.argv[1]))  # noqa: T201 - this is an example
