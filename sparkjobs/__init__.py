"""Spark applications, one per operation, started by path with `spark-submit` or inline.

Imports `holdfast` and `locking`.
"""

from __future__ import annotations

import sys
from pathlib import Path


def _leave_the_zip() -> None:
    """Take an installed PySpark from its folder instead of the zip in it, which spark-submit puts first.

    It is the same PySpark without bytecode, which each process would compile: over half a second of each start.
    """
    for place in [path for path in sys.path if path.endswith("/pyspark/python/lib/pyspark.zip")]:
        package = Path(place).parents[2]
        if (package / "__init__.py").exists():
            sys.path[sys.path.index(place)] = str(package.parent)


_leave_the_zip()
