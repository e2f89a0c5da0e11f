"""Tables and columns as a catalog's record tells them, written down without a server."""

from __future__ import annotations

from typing import Any

from holdfast.postgresql.catalog.columns import Column
from holdfast.postgresql.catalog.table import Table


def column(name: str, number: int = 1, base: str = "int4", **more: Any) -> Column:
    """Return a column of a type of PostgreSQL's own, unless `more` says otherwise."""
    plain = {"type": base, "base_schema": "pg_catalog", "kind": "b", "is_array": False, "precision": None,
             "output": f"pg_catalog.{base}out", "scale": None, "not_null": False, "generated": "",
             "identity": ""}  # fmt: skip
    return Column.from_dict({"name": name, "number": number, "base": base, **plain, **more})


def table(*columns: Column, **more: Any) -> Table:
    """Return an ordinary table `shop.orders` with these columns, and without a key."""
    plain = {"oid": 7, "table_schema": "shop", "name": "orders", "kind": "r", "persistence": "p",
             "replica_identity": "d", "access_method": "heap", "parents": (), "bound": None, "owner": "ann",
             "key": (), "pages": 1, "size": 8192, "estimated_rows": 1}  # fmt: skip
    return Table.model_validate({"columns": columns, **plain, **more})
