"""Types side by side in one table: what is sent, compared and applied by tables takes a tenth of the time so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice

Kinds = Mapping[str, Sequence[str]]
"""SQL of the values of each type, as `VALUES` has it."""

_SIZE = 12
"""Types of one table; a row of them fits on a page."""


def in_groups(kinds: Kinds) -> list[Kinds]:
    """Divide types up, each with its neighbours."""
    left = iter(kinds.items())
    return [dict(group) for group in iter(lambda: list(islice(left, _SIZE)), [])]


def columns_of(kinds: Kinds) -> str:
    """Return the definitions of a column of each type."""
    return ", ".join(f'"Value ""x"" {number}" {kind}' for number, kind in enumerate(kinds))


def rows_of(kinds: Kinds) -> list[str]:
    """Return rows with every value of each type at least once; types with few of them begin anew."""
    count = max(map(len, kinds.values()))
    return [
        ", ".join(f"({values[row % len(values)]})::{kind}" for kind, values in kinds.items()) for row in range(count)
    ]
