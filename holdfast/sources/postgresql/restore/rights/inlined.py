"""SQL functions that the server inlines as it creates a table.

They find nothing there without a search_path.

The server puts their text into a partition key, or into the formula of a generated column, and has to understand that
for it. One that has a setting of its own is left as it is. (Source: inline_function() of PostgreSQL's optimizer.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg

from holdfast.sources.postgresql.connection.session import is_refusal
from holdfast.sources.postgresql.dump.sqltext import SPACE, tokens
from holdfast.sources.postgresql.dump.toc import TABLES
from holdfast.sources.postgresql.restore.rights.search_paths import lend_by, path_of
from holdfast.sources.postgresql.restore.rights.target_rights import has_words, owner_statements, settings_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from holdfast.sources.postgresql.dump.toc import DumpEntry

    Connection = psycopg.Connection[tuple[Any, ...]]


def lend_to_read(session: Connection, entry: DumpEntry, entries: Mapping[int, DumpEntry]) -> None:
    """Give functions a search_path if a table cannot be created otherwise.

    They have it until the restore has come to its end.

    :param session: in the transaction that is to create the entry.
    :param entries: of the plan, by their numbers.
    """
    functions = [each for each in _needed(entry, entries) if _is_read(each)] if entry.kind in TABLES else []
    if not functions or _can_be_created(session, entry):
        return
    for function in functions:
        for statement, _ in owner_statements(function.sql):
            altered = statement.rpartition(" OWNER TO ")[0]
            schema = [token for token in tokens(altered) if token.kind != SPACE][2].identifier
            lend_by(session, altered, path_of(schema, entry.schema))


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


def _can_be_created(session: Connection, entry: DumpEntry) -> bool:
    """Return whether a table can be created, in a transaction that is taken back.

    It is tried without its owner.
    """
    sql = entry.sql
    for statement, _ in owner_statements(sql):
        sql = sql.replace(statement, "", 1)
    try:
        with session.transaction(force_rollback=True):
            session.execute(f"{entry.settings} {sql}".encode("utf-8", "surrogateescape"))
    except psycopg.Error as error:
        if not is_refusal(session, error):
            raise
        return False
    return True
