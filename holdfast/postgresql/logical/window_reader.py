"""Windows of a slot's changes, read as rows, transactions and marks.

Nothing is held of the rows but the batch at hand, however large a transaction is: a batch has the size
of ADBC's, or of the largest message.
"""

from __future__ import annotations

import re
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.common.errors import TooMuchError, UndecodableError
from holdfast.common.lsn import parse_position, show_position
from holdfast.postgresql.connection.session import NOTICE_CLIENTS, SETTINGS_QUERY
from holdfast.postgresql.connection.session_errors import BrokenOffError, SessionError
from holdfast.postgresql.logical import ddl_triggers
from holdfast.postgresql.logical.change_rows import change_rows
from holdfast.postgresql.logical.own_messages import MARK_PREFIX, mark_in
from holdfast.postgresql.logical.peek import DECODING_MEMORY, check_nothing_is_skipped, copy_slot, peek_query
from holdfast.postgresql.logical.pgoutput import MessageReader, ProtocolError
from holdfast.postgresql.logical.relation_schema import Forms, Types
from holdfast.postgresql.values.decode import UnkeepableValueError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Mapping

    from holdfast.postgresql.catalog.catalog import Catalog
    from holdfast.postgresql.connection.address import Address
    from holdfast.postgresql.connection.arrow_session import ArrowSession
    from holdfast.postgresql.logical.ddl_triggers import Touched
    from holdfast.postgresql.logical.pgoutput import LogicalMessage, PgoutputMessages, RelationMessage
    from holdfast.postgresql.logical.relation_schema import ChangeForm, Shown
    from holdfast.postgresql.values.pg_hash import Int64s


TRANSACTIONS: Final = pa.schema(
    [
        pa.field("lsn", pa.int64(), nullable=False),
        pa.field("end_lsn", pa.int64(), nullable=False),
        pa.field("xid", pa.int64(), nullable=False),
        pa.field("committed_at", pa.timestamp("us", tz="UTC"), nullable=False),
    ]
)
"""Of the file that says which transactions a block of changes holds."""

MOST_PASSED: Final = 1000
"""Tables that come and go within a window and are named, at most: a block has them in its commit."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def read_window(session: ArrowSession, address: Address, request: WindowRequest) -> WindowReader:
    """Begin to read a window; iterate over the returned reader.

    :param session: to read in; its settings are made here.
    :param address: of the same database, for questions beside.
    :raises SkippedChangesError: the server may leave changes out.
    :raises BusyError: somebody else reads the slot, or none is free for a copy.
    """
    what = (request.publication, request.upto, request.most_changes)
    count = peek_query(request.slot, *what, what="count(*)")
    own = request.start is None
    with _decoding(request.slot):
        check_nothing_is_skipped(address, request.slot, request.publication, request.upto, count, waits=own)
    session.value(SETTINGS_QUERY)
    session.execute(NOTICE_CLIENTS)
    session.value(DECODING_MEMORY)
    slot = request.slot if request.start is None else copy_slot(session, request.slot, request.start)
    return WindowReader(session.batches(peek_query(slot, *what)), Types(address), request)


_TOO_LARGE: Final = re.compile(
    r"(invalid memory alloc request size|string buffer exceeds maximum allowed length|cannot enlarge string buffer)"
    r".*in the \w+ callback(?:, associated LSN (?P<position>[0-9A-F]+/[0-9A-F]+))?",
    re.IGNORECASE | re.DOTALL,
)
"""Server's error where a row, as decoding writes it, is larger than the gigabyte that it has for one."""


@contextmanager
def _decoding(slot: str) -> Iterator[None]:
    """Raise UndecodableError where the server cannot decode a row of the log.

    It could not the next time, either.
    """
    try:
        yield
    except (BrokenOffError, SessionError, psycopg.Error) as error:
        if (found := _TOO_LARGE.search(str(error))) is None:
            raise
        at = f" at {found['position']}" if found["position"] else ""
        raise UndecodableError(
            f"the log{at} has a row that logical decoding cannot hold (a value of some hundred megabytes; the server "
            f"says: {found[1]}). No backup of changes comes past it, and slot {slot} keeps the log from there on: "
            "begin a new stream by --restart-stream, a full backup; no moment between the last backup and that one can "
            "be restored"
        ) from error


@dataclass
class _Seen:
    transactions: list[pa.RecordBatch] = field(default_factory=list)
    marks: list[SeenMark] = field(default_factory=list)
    ddl: set[int] = field(default_factory=set)
    passed: dict[int, SeenTable] = field(default_factory=dict)
    defined: dict[int, Touched | None] = field(default_factory=dict)
    uncertain: set[int] = field(default_factory=set)
    messages: int = 0
    end: int = 0


class WindowReader:
    """Iterator over the changes of a window; its `end` is known afterwards.

    :param batches: of messages, in one binary column.
    """

    def __init__(self, batches: Generator[pa.RecordBatch, None, None], types: Types, request: WindowRequest) -> None:
        self._batches = batches
        self._request = request
        self._reader = MessageReader()
        self._finder = Forms(types, request.before, request.after)
        self._forms: dict[RelationMessage, ChangeForm] = {}
        self._columns: dict[int, Shown | None] = {}
        self._seen = _Seen()
        self._labels = _labels(request.before, request.after)
        self._recorded = _recorded(request.before, request.after)
        self._touched = False
        self._said: list[_Said] = []

    def __iter__(self) -> Generator[ChangeBatch, None, None]:
        """Yield the changes of followed tables, and of chosen ones that come and go within the window.

        It must be closed where it is not read to its end.

        :raises ProtocolError: there is something in the stream that this release does not know.
        :raises UnkeepableValueError: a value cannot be kept.
        :raises TooMuchError: there are more messages than the request takes.
        :raises UndecodableError: the server cannot decode something that is in the log.
        """
        with _decoding(self._request.slot), closing(self._batches) as batches:
            for batch in batches:
                if not batch.num_rows:
                    continue
                self._count(batch.num_rows)
                messages = self._reader.read(batch.column(0))
                said = list(_ours(messages.messages))
                touching = [np.array([each.row for each in said], np.int64)]
                for relation, rows in messages.groups:
                    if relation.oid in self._request.followed:
                        touching.append(rows)
                        yield self._changes(messages, relation, rows)
                    elif self._comes_and_goes(relation.oid):
                        first, last = (int(messages.lsn[rows[place]]) for place in (0, -1))
                        self._seen.ddl.update((first, last))
                        if (passed := self._passed(messages, relation, rows)) is not None:
                            touching.append(rows)
                            yield passed
                        is_kept = passed is not None
                        self._note_passed(relation, len(rows), show_position(first), show_position(last), is_kept)
                self._finish(messages, touching, said)
                del batch, messages
        if self._reader.inside:
            raise ProtocolError("a transaction without an end")

    @property
    def end(self) -> Window:
        """Return the result of reading; complete once the iteration has ended."""
        seen, most = self._seen, self._request.most_changes
        upto = parse_position(self._request.upto)
        bounded = most is not None and seen.messages >= most
        return Window(
            to_position=show_position(seen.end if bounded else max(upto, seen.end)),
            transactions=tuple(seen.transactions),
            marks=tuple(seen.marks),
            ddl=tuple(show_position(position) for position in sorted(seen.ddl)),
            passed=tuple(seen.passed.values()),
            defined=tuple(SeenDefinition(show_position(at), objects) for at, objects in sorted(seen.defined.items())),
            uncertain=frozenset(seen.uncertain),
            messages=seen.messages,
            bounded=bounded,
        )

    def _count(self, messages: int) -> None:
        self._seen.messages += messages
        most = self._request.refuse_above
        if most is not None and self._seen.messages > most:
            raise TooMuchError(f"more than {most:,} changes are to be read")

    def _changes(self, messages: PgoutputMessages, relation: RelationMessage, rows: Int64s) -> ChangeBatch:
        form = self._forms.get(relation)
        if form is None:
            form = self._forms[relation] = self._finder.of(relation, self._reader.types)
        lsn = messages.lsn[rows]
        self._note_columns(form, int(lsn[0]))
        if form.uncertain and form.oid in self._request.followed:
            self._seen.uncertain.add(form.oid)
        changed = change_rows(messages, rows, form, self._request.max_value_bytes)
        if self._labels is not None:
            self._note_labels(form, changed, self._labels)
        return ChangeBatch(form, changed, int(lsn[0]), int(lsn[-1]))

    def _comes_and_goes(self, oid: int) -> bool:
        """Return whether a published table was made and dropped within the window.

        A partition of a followed table may be, for example.
        """
        return self._recorded is not None and oid not in self._recorded

    def _passed(self, messages: PgoutputMessages, relation: RelationMessage, rows: Int64s) -> ChangeBatch | None:
        """Return the changes of a table that comes and goes; None where they are not chosen, or cannot be kept."""
        seen, is_chosen = self._seen.passed.get(relation.oid), self._request.is_chosen
        if not (self._is_named(relation.oid) if seen is None else seen.kept):
            return None
        if is_chosen is None or not is_chosen(f"{relation.relation_schema}.{relation.name}"):
            return None
        try:
            return self._changes(messages, relation, rows)
        except (ProtocolError, UnkeepableValueError):  # it is gone: no backup is to fail for it
            return None

    def _is_named(self, oid: int) -> bool:
        return oid in self._seen.passed or len(self._seen.passed) < MOST_PASSED

    def _note_passed(self, relation: RelationMessage, changes: int, first: str, last: str, is_kept: bool) -> None:
        """Note changes of a table that comes and goes; of very many tables the last ones count as one."""
        passed = self._seen.passed
        oid = relation.oid if self._is_named(relation.oid) else 0
        name = (relation.relation_schema, relation.name) if oid else ("", "others")
        seen = passed.setdefault(oid, SeenTable(oid, *name, 0, first, last, is_kept))
        passed[oid] = seen._replace(changes=seen.changes + changes, last=last, kept=seen.kept and is_kept)

    def _note_columns(self, form: ChangeForm, position: int) -> None:
        columns = self._finder.shown(form)
        if form.oid not in self._columns:
            self._columns[form.oid] = self._finder.recorded(form.oid)
        if self._request.before is not None and self._columns[form.oid] != columns:
            self._seen.ddl.add(position)
        self._columns[form.oid] = columns

    def _note_labels(self, form: ChangeForm, rows: pa.RecordBatch, labels: _Labels) -> None:
        """Note where labels come up that enums had not before, or have no more.

        An older schema does not take the ones, and nobody knows what became of the others.
        """
        for place, column in enumerate(form.columns):
            name = f"{column.base_schema}.{column.base}"
            known, past = labels.known.get(name), labels.past.get(name)
            if known is None and past is None:
                continue
            values = rows.column(place)
            some = values.drop_null()
            found = _elements(some) if column.is_array else _Elements(some, some)
            new = labels.new.get(name, _NO_LABELS)
            is_new = pc.is_in(found.labels, new) if past is None else pc.invert(pc.is_in(found.labels, past))
            if (first := pc.index(is_new, value=True).as_py()) >= 0:
                row = pc.index(values, found.written[first])
                self._seen.ddl.add(rows.column(-4)[row.as_py()].as_py())
            is_gone = known is not None and not pc.all(pc.is_in(found.labels, known), min_count=0).as_py()
            if is_gone and form.oid in self._request.followed:
                self._seen.uncertain.add(form.oid)

    def _note_definition(self, position: int, touched: Touched | None) -> None:
        """Note the objects that a commit has touched: those of all of its messages, as far as they are not too many."""
        known = self._seen.defined.get(position, frozenset())
        every = None if touched is None or known is None else known | touched
        self._seen.defined[position] = every if every is None or len(every) <= ddl_triggers.MOST_OBJECTS else None

    def _finish(self, messages: PgoutputMessages, touching: list[Int64s], said: list[_Said]) -> None:
        """Record the ended transactions that count, with their marks and definition changes."""
        commits, ended = messages.commits, len(messages.commits.rows)
        touched = np.zeros(ended + 1, np.bool_)  # the last one goes on in the next batch
        touched[0] = self._touched
        for rows in touching:
            touched[np.searchsorted(commits.rows, rows)] = True
        self._touched = bool(touched[ended])
        waiting = [(0, each) for each in self._said]
        waiting += [(int(np.searchsorted(commits.rows, each.row)), each) for each in said]
        self._said = [each for which, each in waiting if which == ended]
        for which, each in waiting:
            if which < ended and each.mark is None:
                self._note_definition(int(commits.lsn[which]), each.touched)
            elif which < ended and each.mark is not None:
                at = _EPOCH + timedelta(microseconds=int(commits.committed_at[which]))
                self._seen.marks.append(SeenMark(each.mark, show_position(int(commits.end_lsn[which])), at, each.id))
        kept = np.flatnonzero(touched[:ended])
        if len(kept):
            columns = (commits.lsn, commits.end_lsn, commits.xid, commits.committed_at)
            arrays = [
                pa.array(column[kept]).cast(kind.type) for column, kind in zip(columns, TRANSACTIONS, strict=True)
            ]
            self._seen.transactions.append(pa.RecordBatch.from_arrays(arrays, schema=TRANSACTIONS))
        self._seen.end = max(self._seen.end, messages.passed, *commits.end_lsn[-1:].tolist())


_NO_LABELS: Final = pa.array([], pa.string())


class _Labels(NamedTuple):
    """Changes of enum labels between two catalogs.

    :param new: by type, the labels that were added.
    :param known: by type, as a catalog names it, the labels that it has now.
    :param past: those that it had, of a type that is gone.
    """

    new: Mapping[str, pa.Array]
    known: Mapping[str, pa.Array]
    past: Mapping[str, pa.Array]


def _labels(before: Catalog | None, after: Catalog | None) -> _Labels | None:
    """Return the changes of enum labels between two catalogs.

    None where there are none, or where a catalog is not known.
    """
    if before is None or after is None:
        return None
    added, gone = after.types_since(before).labels, before.enums.keys() - after.enums.keys()
    if not added and not gone:
        return None
    return _Labels(
        {name: pa.array(sorted(labels), pa.string()) for name, labels in added.items()},
        {name: pa.array(labels) for name, labels in after.enums.items()},
        {name: pa.array(before.enums[name]) for name in gone},
    )


_ELEMENT: Final = re.compile(r'^\[[^{]*|"((?:[^"\\]|\\.)*)"|([^{},"]+)')
"""Of an array of enums, as text, where bounds may come first."""


class _Elements(NamedTuple):
    """Labels of an enum in a column, each with the value that it comes in first."""

    labels: pa.Array
    written: pa.Array


def _elements(arrays: pa.Array) -> _Elements:
    """Return the labels in arrays of an enum, in order of appearance."""
    first: dict[str, str] = {}
    for text in pc.unique(arrays).to_pylist():
        for quoted, plain in _ELEMENT.findall(text):
            if (quoted or plain) and plain != "NULL":
                first.setdefault(re.sub(r"\\(.)", r"\1", quoted) if quoted else plain, text)
    return _Elements(pa.array(first, pa.string()), pa.array(first.values(), pa.string()))


def _recorded(before: Catalog | None, after: Catalog | None) -> frozenset[int] | None:
    """Return the oids of the tables in either of two catalogs.

    None where a catalog is not known.
    """
    if before is None or after is None:
        return None
    return frozenset(table.oid for table in (*before.tables, *after.tables))


class _Said(NamedTuple):
    """A message of ours in the batch at hand.

    :param mark: the name of the mark that it sets; None: it tells that definitions were changed.
    :param id: that the mark says to have been announced by.
    :param touched: objects of these definitions; None: it is not known which.
    """

    row: int
    mark: str | None
    id: str = ""
    touched: Touched | None = None


def _ours(messages: Iterable[LogicalMessage]) -> Iterator[_Said]:
    """Yield Holdfast's own logical messages.

    Anybody may write others under its prefixes.
    """
    for message in messages:
        if message.prefix == ddl_triggers.PREFIX:
            yield _Said(message.row, None, touched=ddl_triggers.touched_by(message.content))
        elif message.prefix == MARK_PREFIX and (said := mark_in(message.content)) is not None:
            yield _Said(message.row, said.name, said.id)


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
    :param uncertain: oids of tables with a column that could not be identified, another key, or a label that is gone:
        they need a new snapshot.
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
