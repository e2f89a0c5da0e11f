"""Which of a table's rows one of several tasks makes: each decides alone, and together they make all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Share:
    """One of `count` shares of rows that are counted from 0; those with neighbouring numbers are together."""

    number: int = 0
    count: int = 1

    def bounds(self, rows: int) -> tuple[int, int]:
        """Return its first row, of so many, and the one behind its last."""
        return rows * self.number // self.count, rows * (self.number + 1) // self.count


ALL: Final = Share()
