"""Names of tables at a recovery target whose schema is in doubt.

A table is known by its oid. Its name is what the schema that is taken says, and that is of another position.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.archive.history.timeline import from_of, to_of
from holdfast.common.lsn import parse_position

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from holdfast.archive.format.block_ref import Placed
    from holdfast.archive.format.document import TableRecord
    from holdfast.archive.history.timeline import Moment
    from holdfast.sources.postgresql.catalog.catalog import Catalog
    from holdfast.sources.postgresql.catalog.table import Table


def changes_between(moment: Moment, pair: tuple[Placed, Placed]) -> Mapping[int, list[TableRecord]]:
    """Return the changes between the two blocks that tell a schema, by table."""
    found: dict[int, dict[int, TableRecord]] = {}
    since, until = (to_of(placed.head) for placed in pair)
    for placed in moment.chain.changes:
        if since < to_of(placed.head) and from_of(placed.head) < until:
            for record in placed.block.tables:
                if record.first and record.last:
                    found.setdefault(int(record.id), {})[id(record)] = record  # as parts of one block tell the same
    return {table: [*records.values()] for table, records in found.items()}


def unproved_names(
    moment: Moment, pair: tuple[Placed, Placed], catalogs: tuple[Catalog, Catalog], taken: Iterable[Table]
) -> dict[int, str]:
    """Return the tables whose names are not proved at a recovery target, with the names, by oid.

    A table that was renamed, or whose name another table had, has a proved name where the newest proof before the
    target and the oldest behind it agree. Proofs are the catalogs on both sides, and the relations that the log
    announces with changes. A table that was renamed there and back has none. One that was dropped may have been renamed
    before, where others were.

    :param pair: blocks that tell the schema on both sides of the target; `catalogs`: theirs.
    :param taken: tables that the log does not tell to have been, or not to have been, touched by then.
    """
    known = tuple({table.oid: table for table in catalog.tables} for catalog in catalogs)
    holders: dict[str, set[int]] = {}
    for tables in known:
        for oid, table in tables.items():
            holders.setdefault(table.label, set()).add(oid)
    renamed = {oid for oid, table in known[1].items() if _is_renamed(known[0].get(oid), table)}
    ends = tuple(to_of(placed.head) for placed in pair)
    changes: Mapping[int, Collection[TableRecord]] | None = None
    found: dict[int, str] = {}
    for table in taken:
        before, after = (tables.get(table.oid) for tables in known)
        is_doubtful = table.oid in renamed or (after is None and bool(renamed))
        if not is_doubtful and not holders.get(table.label, set()) - {table.oid}:
            continue
        labels = {each.label for each in (before, after) if each is not None}
        is_back = table.oid in renamed and before is not None and len(labels) == 1
        changes = changes_between(moment, pair) if changes is None else changes
        proofs = [
            *((end, each.label) for end, each in zip(ends, (before, after), strict=True) if each is not None),
            *_announced(changes.get(table.oid, ()), moment.position),
        ]
        newest = max((proof for proof in proofs if proof[0] < moment.position), default=(0, ""))[1]
        oldest = min((proof for proof in proofs if proof[0] >= moment.position), default=(0, ""))[1]
        if is_back or not newest == oldest == table.label:
            found[table.oid] = table.label
    return found


def _is_renamed(before: Table | None, after: Table) -> bool:
    return not (after.has_first_name if before is None else after.has_name_of(before))


def _announced(records: Iterable[TableRecord], position: int) -> Iterator[tuple[int, str]]:
    """Yield the proofs next to a position that changes give: each has the name that its relation was announced with."""
    for record in records:
        first, last = (parse_position(each or "") for each in (record.first, record.last))
        yield (last if last < position else first), record.label
        yield (first if first >= position else last), record.label
