"""The process that Spark forks its Python workers from, with what every task needs imported before.

Spark's own, with the imports made once instead of in each worker. Nothing may be imported here that starts a thread,
as numpy and pyarrow do: threads do not survive a fork.
"""

from __future__ import annotations

import gc
import importlib
import sys
from importlib.abc import MetaPathFinder
from typing import TYPE_CHECKING

from pyspark.daemon import manager

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

_IMPORTED = ("holdfast.archive.model", "holdfast.storage", "locking", "psycopg", "pyspark.worker")


class _WithoutPandas(MetaPathFinder):
    """Hides pandas from pyarrow, which imports it with the first array it makes of Python's values.

    That takes each worker a third of a second, and no task uses it.
    """

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        """Refuse pandas; about anything else, others are asked.

        :raises ModuleNotFoundError: it is pandas.
        """
        if name == "pandas":
            raise ModuleNotFoundError("no task needs pandas", name=name)


def main() -> None:
    """Import, then fork a worker whenever Spark asks for one."""
    sys.meta_path.insert(0, _WithoutPandas())
    for name in _IMPORTED:
        importlib.import_module(name)
    # Spark's workers collect garbage after each task: what stays for ever need not be looked at each time.
    gc.freeze()
    manager()


if __name__ == "__main__":
    main()
