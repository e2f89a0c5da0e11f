"""Stored generated columns, computed again by a target, perhaps to other values than the source has kept.

A function that was replaced, a dictionary or a library of another version leaves the rows in the source as they were.
So a table whose contents differ is compared without these columns before it is said to be another one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.postgresql.restore.plan.plan import NotRestored
from holdfast.postgresql.values.content_hash import ContentHash, digest
from holdfast.postgresql.values.schema_evolution import conform

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import pyarrow as pa

    from holdfast.postgresql.catalog.columns import Column
    from holdfast.postgresql.catalog.table import Table
    from holdfast.postgresql.restore.rows.apply import Applied

_PLAIN = ""
"""Stands for the columns that are not generated; no column is called so."""

Apart = dict[str, ContentHash]
"""Content hashes: of the columns that are not generated, and of each stored generated one alone, by its name."""


@dataclass(frozen=True)
class Recomputed:
    """Generated columns that differ in a table with equal other columns.

    :param columns: those whose values are known to differ.
    """

    table: Table
    columns: tuple[Column, ...]

    def name(self) -> tuple[NotRestored, ...]:
        """Return each of the columns, with the reason for its difference."""
        return tuple(self._named(column) for column in self.columns)

    def _named(self, column: Column) -> NotRestored:
        expressions = dict(expression.split(" ", 1) for expression in self.table.expressions)
        expression = expressions.get(str(column.number), "its expression")
        return NotRestored(
            f"values of generated column {self.table.label}.{column.name}",
            f"{expression} gives other values here than some rows had: a function, dictionary or library that it uses "
            "is another one than when these were computed. All other columns are equal. The source computes them anew, "
            "too, where its rows are updated",
        )


def has_stored(table: Table) -> bool:
    """Return whether a table has stored generated columns."""
    return any(column.generated == "s" for column in table.columns)


def column_sets(table: Table) -> Mapping[str, tuple[Column, ...]]:
    """Return the columns that are compared apart, by their keys in `Apart`."""
    plain = tuple(column for column in table.columns if not column.generated)
    return {_PLAIN: plain} | {column.name: (column,) for column in table.columns if column.generated == "s"}


def hash_apart(table: Table, batches: Iterable[pa.RecordBatch]) -> Apart:
    """Return the hashes of rows of a data file."""
    sets = column_sets(table)
    found = nothing(table)
    for batch in batches:
        for name, columns in sets.items():
            found[name] += digest(columns, conform(batch, columns))
    return found


def nothing(table: Table) -> Apart:
    """Return the hashes of no rows."""
    return dict.fromkeys(column_sets(table), ContentHash())


def sum_apart(parts: Iterable[Apart]) -> Apart:
    """Return the sums of hashes, of the columns known everywhere."""
    first, *others = parts
    for other in others:
        first = {name: hashed + other[name] for name, hashed in first.items() if name in other}
    return first


def with_changes(base: Apart, plain: Applied | None) -> Apart | None:
    """Return the hashes of rows after changes, which lack generated columns; None where unknown."""
    return None if plain is None else {_PLAIN: plain.after(base[_PLAIN])}


def recomputed(table: Table, wanted: Apart, found: Apart) -> Recomputed | None:
    """Return the differences, if there are some in generated columns only.

    :param wanted: of the archive; of generated columns, where that is known.
    :param found: in the target.
    """
    if wanted[_PLAIN] != found[_PLAIN]:
        return None
    stored = [column for column in table.columns if column.generated == "s"]
    known = [each for each in stored if wanted.get(each.name, found[each.name]) != found[each.name]]
    return Recomputed(table, tuple(known or stored))
