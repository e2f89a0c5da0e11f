"""Tables whose rows of a snapshot do not fit what they are at a later moment: brought to that moment aside.

A CHECK, NOT NULL, the condition of a domain or the bound of a partition may have come once changes had made all rows
fit it. So the older rows and their changes come together in a table that has none of these; the rows that are left
fit, and go on from there.

Where rows are known to be of another moment than the table, even these may not fit: then conditions give way to rows.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import psycopg

from holdfast.errors import RefusedError
from holdfast.sources.postgresql.conditions import drop_condition
from holdfast.sources.postgresql.ledger import LEDGER, ROWS_ASIDE, note_result, once
from holdfast.sources.postgresql.plan import NotRestored
from holdfast.sources.postgresql.session import server_error
from holdfast.sources.postgresql.sql import ident, qualified

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from holdfast.sources.postgresql.table import Table

    Connection = psycopg.Connection[tuple[Any, ...]]

_MORE = """
select a.attname::text, pg_catalog.concat(
  (select pg_catalog.format(' collate %%I.%%I', n.nspname, c.collname) from pg_catalog.pg_collation c
    join pg_catalog.pg_namespace n on n.oid = c.collnamespace where c.oid = a.attcollation),
  (select pg_catalog.format(' generated always as (%%s) %%s', pg_catalog.pg_get_expr(d.adbin, d.adrelid),
    case a.attgenerated when 's' then 'stored' else 'virtual' end)
    from pg_catalog.pg_attrdef d where d.adrelid = a.attrelid and d.adnum = a.attnum and a.attgenerated <> ''))
from pg_catalog.pg_attribute a where a.attrelid = %s::regclass and a.attnum > 0 and not a.attisdropped
"""
"""What a column is beside its name and type, without any condition on its values."""


class MisfitError(RefusedError):
    """Rows break a condition of their table, which those of a later moment may not."""


def aside(table: Table) -> Table:
    """Return the table that takes the rows in the meantime."""
    return table.model_copy(update={"table_schema": LEDGER, "name": f"{ROWS_ASIDE}{table.oid}", "kind": "r"})


def step_of(table: Table, file: str) -> str:
    """Return what the ledger calls a file of a table: another one where its rows go aside first."""
    return f"{file} aside" if table.table_schema == LEDGER else file


def is_loaded(table: Table, file: str, steps: Collection[str]) -> bool:
    """Say whether a file's rows are in, as the ledger says: where they belong, or aside."""
    return step_of(aside(table), file) in steps if is_aside(table, steps) else file in steps


def is_aside(table: Table, steps: Collection[str]) -> bool:
    """Say whether a table's rows go aside first, as the ledger says."""
    return _moved(table) in steps


def is_back(table: Table, steps: Collection[str]) -> bool:
    """Say whether they are where they belong."""
    return _returned(table) in steps


def set_aside(session: Connection, table: Table, files: Iterable[str]) -> None:
    """Begin anew with a table, aside.

    Its files are noted as loaded, so that nobody who is late loads one into the table itself.

    :param files: paths of all that are loaded into it.
    """
    with once(session, _moved(table)) as is_new:
        if not is_new:
            return
        for file in sorted(files):
            session.execute(f"insert into {LEDGER}.done (step) values (%s) on conflict do nothing", (file,))
        name = qualified(table.table_schema, table.name)
        if table.has_rows:  # what is loaded through its root goes aside before any row comes
            session.execute(f"truncate only {name}".encode())
        more: dict[str, str] = dict(session.execute(_MORE, (name,)).fetchall())
        columns = ", ".join(
            f"{ident(column.name)} {qualified(column.base_schema, column.base)}{more[column.name]}"
            for column in table.columns
        )
        there = aside(table)
        session.execute(f"create table {qualified(there.table_schema, there.name)} ({columns})".encode())


def bring_back(session: Connection, table: Table, *, is_lenient: bool = False) -> None:
    """Put the rows of the moment where they belong.

    :param is_lenient: conditions of the table that they break are dropped, and noted.
    :raises RefusedError: the table does not take them, and never will.
    """
    there = aside(table)
    source, target = (qualified(each.table_schema, each.name) for each in (there, table))
    names = ", ".join(ident(column.name) for column in table.columns if not column.generated)
    insert = f"insert into {target} ({names}) overriding system value select {names} from {source}"
    dropped: list[NotRestored] = []
    try:
        with once(session, _returned(table)) as is_new:
            if not is_new:
                return
            session.execute("set local synchronous_commit = off")
            while (error := _refused(session, insert)) is not None:
                condition = drop_condition(session, _refusing(table, error), error) if is_lenient else None
                if condition is None:
                    raise error
                dropped.append(condition)
            session.execute(f"drop table {source}".encode())
            note_result(session, _returned(table), json.dumps([each.describe() for each in dropped]))
    except psycopg.OperationalError:
        raise
    except psycopg.Error as error:
        raise server_error(f"{table.label} does not take its rows", error) from error


def left_out(table: Table, steps: Mapping[str, str]) -> tuple[NotRestored, ...]:
    """Return the conditions of a table that were dropped when its rows came back."""
    noted = json.loads(steps.get(_returned(table)) or "[]")
    return tuple(NotRestored(each["object"], each["reason"], each["statement"]) for each in noted)


def _refused(session: Connection, statement: str) -> psycopg.IntegrityError | None:
    """Run a statement; return the condition that its rows break."""
    try:
        with session.transaction():
            session.execute(statement.encode())
    except psycopg.IntegrityError as error:
        return error
    return None


def _refusing(table: Table, error: psycopg.IntegrityError) -> str:
    """Return the name of the table that does not take a row: of several partitions the server tells which one."""
    diag = error.diag
    if table.has_rows or not (diag.schema_name and diag.table_name):
        return qualified(table.table_schema, table.name)
    return qualified(diag.schema_name, diag.table_name)


def _moved(table: Table) -> str:
    return f"aside {table.oid}"


def _returned(table: Table) -> str:
    return f"back {table.oid}"
