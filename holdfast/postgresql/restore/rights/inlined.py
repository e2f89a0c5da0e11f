"""SQL functions that the server inlines as it creates a table.

They find nothing there without a search_path.

The server puts their text into a partition key, or into the formula of a generated column, and has to understand that
for it. One that has a setting of its own is left as it is. (Source: inline_function() of PostgreSQL's optimizer.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.postgresql.dump.dump_entries import TABLES
from holdfast.postgresql.dump.sql_tokens import SPACE, tokens
from holdfast.postgresql.restore.rights.search_paths import lend_by, path_of
from holdfast.postgresql.restore.rights.target_rights import has_words, owner_statements, settings_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from holdfast.postgresql.connection.session import Connection
    from holdfast.postgresql.dump.dump_entries import DumpEntry


def lend_to_read(session: Connection, entry: DumpEntry, entries: Mapping[int, DumpEntry]) -> bool:
    """Give functions a search_path that a table asks, and that the server may have to read for that.

    They have it until the restore has come to its end.

    :param session: in the transaction that is to create the entry.
    :param entries: of the plan, by their numbers.
    :return: whether there are such functions.
    """
    functions = [each for each in _needed(entry, entries) if _is_read(each)] if entry.kind in TABLES else []
    for function in functions:
        for statement, _ in owner_statements(function.sql):
            altered = statement.rpartition(" OWNER TO ")[0]
            schema = [token for token in tokens(altered) if token.kind != SPACE][2].identifier
            lend_by(session, altered, path_of(schema, entry.schema))
    return bool(functions)


def _needed(entry: DumpEntry, entries: Mapping[int, DumpEntry]) -> Iterator[DumpEntry]:
    """Yield the entries that an entry needs, with those of its operators."""
    for each in entry.needs:
        if (needed := entries.get(each)) is not None:
            yield needed
            if needed.kind == "OPERATOR":
                yield from _needed(needed, entries)


def _is_read(entry: DumpEntry) -> bool:
    if entry.kind != "FUNCTION" or not has_words(entry.sql, "LANGUAGE", "SQL"):
        return False
    return not any(setting.split()[1] == "search_path" for setting in settings_of(entry.sql))
