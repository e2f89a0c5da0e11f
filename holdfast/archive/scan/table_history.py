"""History of one table: its snapshot, its changes and the columns of its rows at a position.

Nothing here knows a kind of database: columns are distinguished by their Parquet field ids, which are their numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from holdfast.common.field_ids import field_id, number_of
from holdfast.common.lsn import parse_position

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.archive.format.document import FileRecord, TableRecord


@dataclass(frozen=True, kw_only=True)
class TableHistory:
    """Parts of one table at a position.

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
        """Return the wanted fields of given columns, with their sidecars."""
        return pa.schema([each for each in self.wanted if number_of(field_id(each)) in numbers])


@dataclass(frozen=True, slots=True)
class Share:
    """One of `count` shares of a table's rows; rows with neighbouring numbers are together.

    Each task decides alone, and together they make all rows.
    """

    number: int = 0
    count: int = 1

    def bounds(self, rows: int) -> tuple[int, int]:
        """Return the share's first row, counted from 0, and the one after its last."""
        return rows * self.number // self.count, rows * (self.number + 1) // self.count


ALL: Final = Share()
