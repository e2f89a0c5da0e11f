"""Suppression of the import of pandas in processes of jobs.

It would take a third of a second in each.
"""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType


def hide_pandas() -> None:
    """Keep pandas from being imported: pyarrow does so with the first array it makes of Python's values, if it can."""
    sys.meta_path.insert(0, _WithoutPandas())


class _WithoutPandas(MetaPathFinder):
    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        """Refuse pandas; about anything else, others are asked.

        :raises ModuleNotFoundError: it is pandas.
        """
        if name == "pandas":
            raise ModuleNotFoundError("no job needs pandas", name=name)
