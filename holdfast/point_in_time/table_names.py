"""Names of tables at a recovery target whose schema is in doubt.

A table is known by its oid. Its name is what the schema that is taken says, and that is of another position.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.archive.history.coverage import from_of, to_of
from holdfast.common.lsn import parse_position

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from holdfast.archive.format.block_ref import Placed
    from holdfast.archive.format.document import TableRecord
    from holdfast.archive.history.recovery_target import RecoveryTarget
    from holdfast.postgresql.catalog.catalog import Catalog
    from holdfast.postgresql.catalog.table import Table


def changes_between(target: RecoveryTarget, pair: tuple[Placed, Placed]) -> Mapping[int, list[TableRecord]]:
    """Return the changes between the two blocks that tell a schema, by table."""
    found: dict[int, dict[int, TableRecord]] = {}
    since, until = (to_of(placed.head) for placed in pair)
    for placed in target.chain.changes:
        if since < to_of(placed.head) and from_of(placed.head) < until:
            for record in placed.block.tables:
                if record.first and record.last:
                    found.setdefault(int(record.id), {})[id(record)] = record  # as parts of one block tell the same
    return {table: [*records.values()] for table, records in found.items()}


@dataclass(frozen=True)
class NameProof:
    """Proof of the name of a table that may have had another one.

    :param label: `schema.name` as in the schema that is taken.
    :param record: the changes that announce its name on both sides of the target, where that is another one.
    """

    label: str
    is_proved: bool
    record: TableRecord | None = None


def name_proofs(
    target: RecoveryTarget, pair: tuple[Placed, Placed], catalogs: tuple[Catalog, Catalog], taken: Iterable[Table]
) -> dict[int, NameProof]:
    """Return what is proved of the names at a recovery target, by oid, of tables that may have had others.

    A table that was renamed, or whose name another table had, has a proved name where the newest proof before the
    target and the oldest behind it agree. Proofs are the catalogs on both sides, and the relations that the log
    announces with changes. A table that was renamed there and back has none. One that was dropped may have been renamed
    before, where others were. A name that the log alone announces, on both sides, is the likely one.

    :param pair: blocks with the schema on both sides of the target; `catalogs`: theirs.
    :param taken: tables of which the log does not say whether they had been touched by then.
    """
    known = tuple({table.oid: table for table in catalog.tables} for catalog in catalogs)
    holders: dict[str, set[int]] = {}
    for tables in known:
        for oid, table in tables.items():
            holders.setdefault(table.label, set()).add(oid)
    renamed = {oid for oid, table in known[1].items() if _is_renamed(known[0].get(oid), table)}
    ends = tuple(to_of(placed.head) for placed in pair)
    changes: Mapping[int, Collection[TableRecord]] | None = None
    found: dict[int, NameProof] = {}
    for table in taken:
        before, after = (tables.get(table.oid) for tables in known)
        is_doubtful = table.oid in renamed or (after is None and bool(renamed))
        if not is_doubtful and not holders.get(table.label, set()) - {table.oid}:
            continue
        labels = {each.label for each in (before, after) if each is not None}
        is_back = table.oid in renamed and before is not None and len(labels) == 1
        changes = changes_between(target, pair) if changes is None else changes
        records = changes.get(table.oid, ())
        proofs = [
            *((end, each.label) for end, each in zip(ends, (before, after), strict=True) if each is not None),
            *_announced(records, target.position),
        ]
        newest = max((proof for proof in proofs if proof[0] < target.position), default=(0, ""))[1]
        oldest = min((proof for proof in proofs if proof[0] >= target.position), default=(0, ""))[1]
        is_agreed = newest == oldest and not (is_back and newest in labels)
        record = next((each for each in records if is_agreed and each.label == newest != table.label), None)
        # One that neither catalog has may have gone to another table and come back, without a change in between.
        is_proved = is_agreed and newest == table.label and (newest in labels or not labels)
        found[table.oid] = NameProof(table.label, is_proved, record)
    return found


def with_announced_names(catalog: Catalog, proofs: Mapping[int, NameProof]) -> Catalog:
    """Return a catalog with the names that the log announces, where the schema that is taken has others.

    A name stays as it is where another table has the announced one, or the table is in another schema by that.
    """
    proved = {
        table.oid: record.name
        for table in catalog.tables
        if table.oid in proofs
        and (record := proofs[table.oid].record) is not None
        and record.table_schema == table.table_schema
    }
    relations = [(each.sequence_schema, each.name) for each in catalog.sequences]
    relations += [(each.relation_schema, each.name) for each in catalog.materialized_views]
    while proved:
        named = [(table.table_schema, proved.get(table.oid, table.name)) for table in catalog.tables]
        held = Counter([*named, *relations])
        clashing = {table.oid for table, name in zip(catalog.tables, named, strict=True) if held[name] > 1}
        if not clashing & proved.keys():
            break
        proved = {oid: name for oid, name in proved.items() if oid not in clashing}
    tables = (
        table.model_copy(update={"name": proved[table.oid]}) if table.oid in proved else table
        for table in catalog.tables
    )
    return catalog.model_copy(update={"tables": tuple(tables)}) if proved else catalog


def _is_renamed(before: Table | None, after: Table) -> bool:
    return not (after.has_first_name if before is None else after.has_name_of(before))


def _announced(records: Iterable[TableRecord], position: int) -> Iterator[tuple[int, str]]:
    """Yield the proofs next to a position that changes give: each has the name that its relation was announced with."""
    for record in records:
        first, last = (parse_position(each or "") for each in (record.first, record.last))
        yield (last if last < position else first), record.label
        yield (first if first >= position else last), record.label
