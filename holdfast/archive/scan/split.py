"""Split of a table's rows between several tasks.

Each task decides alone, and together they make all rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Share:
    """One of `count` shares of rows.

    Rows are counted from 0, and those with neighbouring numbers are together.
    """

    number: int = 0
    count: int = 1

    def bounds(self, rows: int) -> tuple[int, int]:
        """Return the share's first row, and the one after its last."""
        return rows * self.number // self.count, rows * (self.number + 1) // self.count


ALL: Final = Share()
