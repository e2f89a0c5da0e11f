"""What is needed to tell the rows of one table at a position: its snapshot, its changes, and the columns wanted.

Nothing here knows a kind of database: columns are told apart by their Parquet field ids, which are their numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from holdfast.archive.position import parse_position

if TYPE_CHECKING:
    from holdfast.archive.model import FileRecord, TableRecord

EXACT_FIELD_IDS: Final = 100_000
"""Added to a column's number it is the field id of its sidecar, which keeps the values its type cannot hold as text."""

EXACT_OF: Final = b"holdfast:exact_of"
"""Field metadata of a sidecar."""

LSN: Final = 200_001
"""Field id, in files of changes: the position of the commit, as an integer."""
SEQ: Final = 200_002
"""Field id: the order inside the transaction."""
OP: Final = 200_003
"""Field id: I(nsert), U(pdate), D(elete) or T(runcate)."""
UNCHANGED: Final = 200_004
"""Field id: the numbers of the columns whose value did not change and is not in the row."""
COUNT: Final = 200_005
"""Field id, in net changes of a table without a key: how many times the row was added or taken away."""

_FIELD_ID: Final = b"PARQUET:field_id"


@dataclass(frozen=True, kw_only=True)
class TableHistory:
    """The parts of one table at a position.

    :param table: its id.
    :param label: `schema.name`, for people.
    :param base: the files of its snapshot.
    :param since: the position of the snapshot.
    :param changes: records of its changes, in the order of their blocks; they may hold more than is needed.
    :param key: numbers of the columns that tell rows apart; empty where rows are a multiset.
    :param upto: changes of transactions that commit before this position count.
    :param wanted: the columns of the rows to make, as they stand in a file that is written in that form. Columns that
        changes do not hold (generated ones) must not be among them where there are any.
    :param missing: by field id, the value that rows written before the column was there have; NULL where none is given.
    """

    table: str
    label: str
    base: tuple[FileRecord, ...]
    since: int
    changes: tuple[TableRecord, ...]
    key: tuple[int, ...]
    upto: int
    wanted: pa.Schema
    missing: Mapping[int, pa.Scalar] = field(default_factory=dict)

    def relevant(self) -> tuple[TableRecord, ...]:
        """Return the records that may hold changes between the snapshot and the position."""
        return tuple(each for each in self.changes if self._touches(each))

    def _touches(self, record: TableRecord) -> bool:
        starts_later = record.first is not None and parse_position(record.first) >= self.upto
        ended_before = record.last is not None and parse_position(record.last) < self.since
        return not starts_later and not ended_before

    def fields(self, numbers: tuple[int, ...]) -> pa.Schema:
        """Return of the wanted fields those of these columns, with their sidecars."""
        return pa.schema([each for each in self.wanted if number_of(field_id(each)) in numbers])


def field_id(field: pa.Field) -> int:
    """Return a field's id; -1 where it has none."""
    return int((field.metadata or {}).get(_FIELD_ID, b"-1"))


def number_of(field_id: int) -> int:
    """Return the number of the column that a field is of, be it its value or its sidecar."""
    return field_id - EXACT_FIELD_IDS if EXACT_FIELD_IDS < field_id < LSN else field_id


def with_extra(schema: pa.Schema, *extra: tuple[str, pa.DataType, int]) -> pa.Schema:
    """Return a schema with fields appended, whose names get underscores where the schema has them."""
    for name, kind, number in extra:
        while name in schema.names:
            name += "_"
        schema = schema.append(pa.field(name, kind, metadata={_FIELD_ID: str(number).encode()}))
    return schema
