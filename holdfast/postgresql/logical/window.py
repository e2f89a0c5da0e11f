"""Windows of a slot's changes: what is asked for, and what is read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    import pyarrow as pa

    from holdfast.postgresql.catalog.catalog import Catalog
    from holdfast.postgresql.logical.ddl_triggers import Touched
    from holdfast.postgresql.logical.relation_schema import ChangeForm


@dataclass(frozen=True, kw_only=True)
class WindowRequest:
    """Request for a window of changes.

    :param start: position: transactions whose commit record starts before it are left out, by a copy of the slot, so
        that others can be read at the same time; None: where the slot is.
    :param upto: position: transactions whose commit record starts before it are read; not beyond the log's end.
    :param most_changes: end with the transaction that brings the number of messages to this; None: no bound.
    :param followed: oids of the tables whose changes are wanted.
    :param is_chosen: whether the changes of a table that neither catalog has are wanted, too, by its `schema.name`;
        None: none is.
    :param before, after: the catalog of the cut before these changes, and that of now or later.
    :param max_value_bytes: larger values are refused.
    :param refuse_above: give up at more messages than this: one transaction may bring any number with its commit
        record alone, since the rest of it lies further back in the log; None: take them all.
    """

    slot: str
    publication: str
    start: str | None
    upto: str
    most_changes: int | None
    followed: frozenset[int]
    before: Catalog | None
    after: Catalog | None
    max_value_bytes: int
    is_chosen: Callable[[str], bool] | None = None
    refuse_above: int | None = None


class ChangeBatch(NamedTuple):
    """Rows of one form in its Parquet schema, in order.

    `first` and `last` are positions of commits.
    """

    form: ChangeForm
    rows: pa.RecordBatch
    first: int
    last: int


class SeenDefinition(NamedTuple):
    """Change of definitions found in the log.

    :param position: of the commit that made it.
    :param objects: that it has touched; None: it is not known which.
    """

    position: str
    objects: Touched | None


class SeenTable(NamedTuple):
    """Published table that was made and dropped within a window.

    :param first, last: positions of the first and last commit with changes of it.
    :param kept: all of these changes were returned with those of followed tables.
    """

    oid: int
    table_schema: str
    name: str
    changes: int
    first: str
    last: str
    kept: bool


class SeenMark(NamedTuple):
    """Mark (named restore point) found in the log.

    Anybody may write such a message.

    :param position: just behind the transaction that set it.
    :param id: that it says to have been announced by; "" where it says none.
    """

    name: str
    position: str
    at: datetime
    id: str


@dataclass(frozen=True)
class Window:
    """Result of reading a window, beside its rows.

    :param to_position: every transaction whose commit record starts before it was read, as far back as the slot's.
    :param transactions: batches of TRANSACTIONS, in order: those with changes that were returned, or marks.
    :param ddl: positions of commits with which tables were seen first, or to have other columns than before, or new
        labels; the first and last ones seen of tables that come and go in between.
    :param passed: these tables, by their names at first.
    :param defined: commits that changed definitions, where event triggers tell the log.
    :param uncertain: oids of tables with a column that could not be told, another key, or a label that is gone: they
        need a new snapshot.
    :param messages: how many the server sent; `bounded`: their number may have ended the window.
    """

    to_position: str
    transactions: tuple[pa.RecordBatch, ...]
    marks: tuple[SeenMark, ...]
    ddl: tuple[str, ...]
    passed: tuple[SeenTable, ...]
    defined: tuple[SeenDefinition, ...]
    uncertain: frozenset[int]
    messages: int
    bounded: bool
