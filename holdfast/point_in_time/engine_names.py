"""Names of PostgreSQL in a query engine that ignores case."""

from __future__ import annotations

import re
import secrets
from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.archive.scan.projection import quoted
from holdfast.postgresql.values.stored_columns import schema_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.postgresql.catalog.table import Table

_WORDS: Final = (duckdb.token_type.identifier, duckdb.token_type.keyword)
_CAPITAL: Final = re.compile("[A-Z]")
_NONCHARACTERS: Final = [chr(code) for code in range(0xFDD0, 0xFDF0)]
"""Unicode gives them no meaning, and never will."""

_DATABASES: Final = frozenset({"memory", "system", "temp"})
"""Before a dot, DuckDB takes these for its databases, and for no schema."""

_OWN_SCHEMAS: Final = frozenset({"main", "information_schema", "pg_catalog"})
_MENTIONED: Final = 20


class EngineNames:
    """Names of a backup and of one statement, as DuckDB has them.

    They mean what they mean in PostgreSQL: a name in double quotes is itself, and any other is in lower case. DuckDB
    ignores case. So where two names of the backup or the statement differ by case alone, each capital letter has a mark
    before it inside DuckDB. A schema that is called like a database of DuckDB's has one, too. `shown` takes marks away.

    :ivar mark: chosen by chance; no text of a backup has it.
    :ivar written: what may be a name in the statement.
    """

    def __init__(self, sql: str, tables: Sequence[Table]) -> None:
        self.mark = "".join(secrets.choice(_NONCHARACTERS) for _ in range(4))
        self._pieces = list(_split(sql))
        self.written = {_read(piece) for piece, is_word in self._pieces if is_word}
        used = [table for table in tables if table.name in self.written] or tables
        columns = {name for table in used for name in _columns(table)}
        self._backup = columns | {name for table in tables for name in (table.table_schema, table.name)}
        self._taken = _DATABASES & {table.table_schema for table in tables}
        spellings = Counter(map(_lower, self.written | self._backup | _DATABASES | _OWN_SCHEMAS))
        self._alike = {name for name, count in spellings.items() if count > 1}

    def sql_of(self, name: str) -> str:
        """Return a name, quoted."""
        return quoted(self._inside(name))

    def statement(self) -> str:
        """Return the statement with the names that it means."""
        return "".join(self._written_inside(piece) if is_word else piece for piece, is_word in self._pieces)

    def shown(self, text: str) -> str:
        """Return a text without marks."""
        return text.replace(self.mark, "")

    def shown_batch(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a batch without marks in column names and values: DESCRIBE has names in its rows."""
        if not self._alike and not self._taken:
            return batch
        columns = [self._shown_array(column) for column in batch.columns]
        return pa.RecordBatch.from_arrays(columns, [self.shown(name) for name in batch.schema.names])

    def hint(self) -> str:
        """Return which names the statement may have meant, where it has only other spellings of them."""
        wanted = {_lower(name) for name in self.written - self._backup}
        others = sorted(quoted(name) for name in self._backup if name != _lower(name) and _lower(name) in wanted)
        return f"; a name with capital letters needs double quotes: {', '.join(others[:_MENTIONED])}" if others else ""

    def _inside(self, name: str) -> str:
        if name in self._taken:
            return self.mark + name
        return _CAPITAL.sub(lambda letter: self.mark + letter[0], name) if _lower(name) in self._alike else name

    def _written_inside(self, word: str) -> str:
        name = _read(word)
        inside = self._inside(name)
        return word if inside == name else quoted(inside)

    def _shown_array(self, array: pa.Array) -> pa.Array:
        kind = array.type
        if pa.types.is_string(kind):
            return pc.replace_substring(array, self.mark, "")
        if pa.types.is_list(kind):
            nulls = array.is_null() if array.null_count else None
            return pa.ListArray.from_arrays(array.offsets, self._shown_array(array.values), mask=nulls)
        if pa.types.is_struct(kind):
            names = [self.shown(field.name) for field in kind]
            fields = [self._shown_array(array.field(index)) for index in range(kind.num_fields)]
            return pa.StructArray.from_arrays(fields, names, mask=array.is_null())
        return array


def _split(sql: str) -> Iterator[tuple[str, bool]]:
    """Yield the pieces of a statement, and whether each may be a name.

    DuckDB's own `get_table_names` fails where a join says `using`, since the tables are not there yet.
    """
    text = sql.encode()  # DuckDB counts bytes
    tokens = [*duckdb.tokenize(sql), (len(text), None)]
    yield text[: tokens[0][0]].decode(), False
    for (first, kind), (end, _) in pairwise(tokens):
        piece = text[first:end].decode()
        word = piece.rstrip()
        yield word, kind in _WORDS
        yield piece[len(word) :], False


def _columns(table: Table) -> list[str]:
    return list(schema_of([column for column in table.columns if not column.generated]).names)


def _read(word: str) -> str:
    """Return the name that a word of a statement means."""
    return word[1:-1].replace('""', '"') if word.startswith('"') else _lower(word)


def _lower(name: str) -> str:
    """Return a name in lower case, as PostgreSQL and DuckDB have it: of letters of ASCII alone."""
    return _CAPITAL.sub(lambda letter: letter[0].lower(), name)
