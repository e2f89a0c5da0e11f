"""The size of a restore, as its plan tells it; whole restores are in tests/sparkjobs/test_restore.py and restore/."""

from __future__ import annotations

from holdfast.postgresql.restore.plan.plan import PlannedTable, RestorePlan
from tests.support.databases.records import column, table


def planned(oid: int, rows: int, kind: str = "r") -> PlannedTable:
    made = table(column("id"), oid=oid, kind=kind)
    return PlannedTable(source=made, target=made, rows=rows, size=10 * rows)


def test_tables_without_rows_of_their_own_are_not_counted() -> None:
    tables = (planned(1, 5), planned(2, 0, "p"), planned(3, 7), planned(4, 0, "f"), planned(5, 0))
    plan = RestorePlan(tables=tables, entries=(), sequences=(), materialized_views=(), roles=())
    assert plan.size() == {"tables": 3, "rows": 12, "changes": 0, "bytes": 120, "disk_bytes": 24576}
