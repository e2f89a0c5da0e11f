"""The process that Spark forks its Python workers from, with what every task needs imported before.

Spark's own, with the imports made once instead of in each worker. Nothing may be imported here that starts a thread,
as numpy and pyarrow do: threads do not survive a fork.
"""

from __future__ import annotations

import gc
import importlib

from pyspark.daemon import manager

_IMPORTED = ("holdfast.archive.model", "holdfast.storage", "locking", "psycopg", "pyspark.worker")


def main() -> None:
    """Import, then fork a worker whenever Spark asks for one."""
    for name in _IMPORTED:
        importlib.import_module(name)
    # Spark's workers collect garbage after each task: what stays for ever need not be looked at each time.
    gc.freeze()
    manager()


if __name__ == "__main__":
    main()
