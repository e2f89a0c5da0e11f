"""Sequence values as backups record them, and as known between two backups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.common.errors import RefusedError
from holdfast.postgresql.catalog.record import CatalogRecord
from holdfast.postgresql.connection.sql import qualified

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from holdfast.postgresql.connection.session import Connection

_AT_ONCE = 100
"""Sequences that one query reads: each is a relation that it locks."""

_GIVES_DATA = 180000
"""From this version on a function gives a sequence's whole state."""


class Reading(CatalogRecord):
    """State of a sequence.

    Its value is the number that it gave last, or that it gives first where it was never called.
    """

    last_value: int
    is_called: bool


class SequenceValue(Reading):
    """Recorded value of a sequence; never older than the snapshot.

    :param oid: of the sequence; 0 where a release did not record it.
    :param extension: which it belongs to; "" where it belongs to none.
    """

    sequence_schema: str
    name: str
    oid: int = 0
    extension: str = ""


class SequenceBetween(SequenceValue):
    """Value of a sequence at a position between two backups.

    It is the value that the later backup found.

    :param earlier: what the earlier one found; None where it had no such sequence.
    :param is_past: the later one had no such sequence any more, and this shows what the earlier one found.
    """

    earlier: Reading | None
    is_past: bool


def read_sequences(session: Connection, names: Sequence[tuple[Any, ...]]) -> Iterator[SequenceValue]:
    """Read the values of sequences by their oids, so that nothing of another name is planned.

    :param names: oid, schema and name of each, and its extension.
    :raises RefusedError: others have taken the names of sequences.
    """
    values = _values if session.info.server_version >= _GIVES_DATA else _values_of_before
    for start in range(0, len(names), _AT_ONCE):
        some = names[start : start + _AT_ONCE]
        found = values(session, some)
        for oid, schema, name, extension in some:
            last_value, is_called = found[oid]
            yield SequenceValue(
                oid=oid,
                sequence_schema=schema,
                name=name,
                extension=extension,
                last_value=last_value,
                is_called=is_called,
            )


_Values = dict[int, tuple[int, bool]]


def _values(session: Connection, names: Sequence[tuple[Any, ...]]) -> _Values:
    oids = [oid for oid, *_ in names]
    rows = session.execute(_DATA, (oids,))
    return {oid: (last_value, is_called) for oid, last_value, is_called in rows}


_DATA = """
select o::pg_catalog.int8, d.last_value, d.is_called
from pg_catalog.unnest(%s::pg_catalog.oid[]) o, lateral pg_catalog.pg_get_sequence_data(o) d
"""


def _values_of_before(session: Connection, names: Sequence[tuple[Any, ...]]) -> _Values:
    """Return values where only the last one given can be read by oid.

    Reading that locks the sequence under its name. One that was never called is then read by its name.
    """
    found = {}
    called = session.execute(_LAST_VALUES, ([oid for oid, *_ in names],))
    last_values: dict[int, int | None] = dict(called.fetchall())
    for oid, schema, name, _ in names:
        if (last_value := last_values[oid]) is not None:
            found[oid] = last_value, True
            continue
        sequence = qualified(schema, name)
        row = session.execute("select pg_catalog.to_regclass(%s)::pg_catalog.oid::pg_catalog.int8", (sequence,))
        if row.fetchone() == (oid,):
            read = session.execute(
                f"select tableoid::pg_catalog.int8, last_value, is_called from only {sequence}".encode()
            ).fetchone()
            if read is not None and read[0] == oid:
                found[oid] = read[1:]
                continue
        raise RefusedError(f"{schema}.{name} is another object than when the backup began: back up again")
    return found


_LAST_VALUES = """
select o::pg_catalog.int8, pg_catalog.pg_sequence_last_value(o::pg_catalog.regclass)
from pg_catalog.unnest(%s::pg_catalog.oid[]) o
"""


def at_end(wanted: Iterable[SequenceValue], recorded: Iterable[SequenceValue]) -> Iterator[SequenceValue]:
    """Yield the values of sequences at the end of a backup.

    :param wanted: those that there are, as the moment's schema calls them.
    :param recorded: by the backup.
    """
    found = _Recorded(recorded)
    for each in wanted:
        reading = found.of(each) or each
        yield each.model_copy(update={"last_value": reading.last_value, "is_called": reading.is_called})


def between(
    wanted: Iterable[SequenceValue], earlier: Sequence[SequenceValue], later: Sequence[SequenceValue] | None
) -> Iterator[SequenceValue]:
    """Yield the values of sequences between two backups.

    :param wanted: those that there are, as the moment's schema calls them.
    :param earlier: what the last backup before the moment recorded.
    :param later: what the next one did; None: there is none that tells.
    """
    before, after = _Recorded(earlier), _Recorded(later or ())
    for each in wanted:
        known, shown = before.of(each), after.of(each)
        reading = shown or known or each
        yield SequenceBetween(
            sequence_schema=each.sequence_schema,
            name=each.name,
            oid=each.oid,
            extension=each.extension,
            last_value=reading.last_value,
            is_called=reading.is_called,
            earlier=known,
            is_past=shown is None,
        )


class _Recorded:
    """Index of a backup's recorded sequence values.

    A sequence is found by its oid under any name, and by its name where an oid is unknown.
    """

    def __init__(self, values: Iterable[SequenceValue]) -> None:
        self._by_oid: dict[int, SequenceValue] = {}
        self._by_name: dict[tuple[str, str], SequenceValue] = {}
        for value in values:
            self._by_oid[value.oid] = self._by_name[value.sequence_schema, value.name] = value

    def of(self, wanted: SequenceValue) -> SequenceValue | None:
        if wanted.oid and wanted.oid in self._by_oid:
            return self._by_oid[wanted.oid]
        named = self._by_name.get((wanted.sequence_schema, wanted.name))
        return None if named is not None and wanted.oid and named.oid else named
