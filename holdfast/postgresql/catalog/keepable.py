"""Types with values that PostgreSQL cannot read back: they are not kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.common.errors import RefusedError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.postgresql.catalog.columns import Column

_WITHOUT_INPUT: Final = frozenset(
    {
        "gtsvector", "_gtsvector", "pg_brin_bloom_summary", "pg_brin_minmax_multi_summary",
        "pg_dependencies", "pg_mcv_list", "pg_ndistinct", "pg_node_tree",
    }
)  # fmt: skip
"""Types of pg_catalog with an output function and no input function."""


class UnkeepableTypeError(RefusedError):
    """Column type without a text form that could be loaded again."""


def check_keepable(columns: Iterable[Column]) -> None:
    """Refuse columns with values that cannot be loaded again.

    Virtual generated columns have no values of their own.

    :raises UnkeepableTypeError: a type cannot be loaded again; names its column.
    """
    for column in columns:
        if column.generated != "v" and column.base in _WITHOUT_INPUT and column.base_schema == "pg_catalog":
            raise UnkeepableTypeError(
                f'column "{column.name}" has type {column.type}, which PostgreSQL writes but cannot read back: '
                "leave the table out or drop the column"
            )
