"""Staging tables, in which rows of a snapshot are brought to the recovery target before they fit their table.

A CHECK, NOT NULL, the condition of a domain or the bound of a partition may have come once changes had made all rows
fit it. So the older rows and their changes come together in a table that has none of these; the rows that are left fit,
and go on from there.
Even these may not fit: where they are of another time than the table, where a condition asks other tables or the clock,
where it was never true. Rows come first: then conditions give way.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

import psycopg

from holdfast.common.errors import RefusedError
from holdfast.postgresql.catalog.own_objects import LEDGER
from holdfast.postgresql.connection.session import first_column, is_refusal, refusal_of, server_error
from holdfast.postgresql.connection.sql import ident, qualified
from holdfast.postgresql.restore.plan.ledger import (
    ROWS_ASIDE,
    note_result,
    note_step,
    once,
    read_result,
    read_steps,
    unnoticed,
)
from holdfast.postgresql.restore.plan.plan import NotRestored
from holdfast.postgresql.restore.plan.relaxed_constraints import (
    RelaxedConstraint,
    add_again,
    detach,
    drop_condition,
    drop_expression,
    failure_of_bound,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from holdfast.postgresql.catalog.table import Table
    from holdfast.postgresql.connection.session import Connection

_MORE = """
select a.attname::text,
  coalesce((select pg_catalog.format(' collate %%I.%%I', n.nspname, c.collname) from pg_catalog.pg_collation c
    join pg_catalog.pg_namespace n on n.oid = c.collnamespace where c.oid = a.attcollation), ''),
  coalesce((select pg_catalog.format(' generated always as (%%s) %%s', pg_catalog.pg_get_expr(d.adbin, d.adrelid),
    case a.attgenerated when 's' then 'stored' else 'virtual' end)
    from pg_catalog.pg_attrdef d where d.adrelid = a.attrelid and d.adnum = a.attnum and a.attgenerated <> ''), '')
from pg_catalog.pg_attribute a where a.attrelid = %s::regclass and a.attnum > 0 and not a.attisdropped
"""
"""What a column is beside its name and type, without any condition on its values: its collation, and its formula."""

_COMPUTED_HERE = """
select attname::text from pg_catalog.pg_attribute where attrelid = %s::regclass and attgenerated <> ''
"""

_BELOW = "select relid::regclass::text from pg_catalog.pg_partition_tree(%s::regclass) where level > 0 order by 1"

_COMPUTED = "computed"


class MisfitError(RefusedError):
    """Refusal of rows by a table, for a broken condition or a failed computation."""


def not_taken(session: Connection, what: str, error: psycopg.Error) -> NoReturn:
    """Raise the error of a table that did not take rows.

    :raises MisfitError: it never will, as they and the table are now.
    :raises HoldfastError: something else was in the way, or the server's own error.
    """
    if is_refusal(session, error):
        raise MisfitError(str(server_error(what, error))) from error
    if isinstance(error, psycopg.OperationalError):
        raise error
    raise server_error(what, error) from error


def staging_table(table: Table, steps: Mapping[str, str]) -> Table:
    """Return the staging table of a table, which computes nothing where the ledger says so."""
    update: dict[str, Any] = {"table_schema": LEDGER, "name": f"{ROWS_ASIDE}{table.oid}", "kind": "r"}
    if steps.get(_moved(table)) == _COMPUTED:
        update["columns"] = tuple(
            replace(column, generated="") if column.generated == "s" else column for column in table.columns
        )
    return table.model_copy(update=update)


def step_of(table: Table, file: str) -> str:
    """Return the ledger's name for a file of a table, another one for its staging table."""
    return f"{file} aside" if table.table_schema == LEDGER else file


def is_loaded(table: Table, file: str, steps: Mapping[str, str]) -> bool:
    """Return whether the ledger says that a file's rows are in their table or its staging table."""
    return step_of(staging_table(table, steps), file) in steps if is_aside(table, steps) else file in steps


def is_aside(table: Table, steps: Collection[str]) -> bool:
    """Return whether a table's rows go to a staging table."""
    return _moved(table) in steps


def is_back(table: Table, steps: Collection[str]) -> bool:
    """Return whether the rows are back in their table."""
    return _returned(table) in steps


def set_aside(
    session: Connection,
    tables: Sequence[Table],
    files: Mapping[int, Iterable[str]],
    *,
    keep_computed: Collection[int] = (),
    is_begun: bool = True,
) -> None:
    """Start over in staging tables, with one table or with all that are loaded through one root.

    Their files are noted as loaded, so that none that is late comes into the table itself.

    :param files: paths of all that are loaded into each, by its oid.
    :param keep_computed: oids of those whose stored generated columns have there what the files say: their functions
        may fail.
    :param is_begun: rows may be in the table already.
    """
    with session.transaction():
        new = [
            table
            for table in tables
            if _set_aside(session, table, files[table.oid], is_kept=table.oid in keep_computed)
        ]
        if new and is_begun:
            only = "only " if new[0].has_rows else ""
            session.execute(f"truncate {only}{qualified(new[0].table_schema, new[0].name)}".encode())


def _set_aside(session: Connection, table: Table, files: Iterable[str], *, is_kept: bool) -> bool:
    """Create a table's staging table; return False where that was done before."""
    with once(session, _moved(table)) as is_new:
        if is_new:
            if is_kept:
                note_result(session, _moved(table), _COMPUTED)
            for file in sorted(files):
                note_step(session, file)
            _create_aside(session, table, staging_table(table, {_moved(table): _COMPUTED if is_kept else ""}))
        return is_new


def _create_aside(session: Connection, table: Table, there: Table) -> None:
    name = qualified(table.table_schema, table.name)
    more = {column: (collation, formula) for column, collation, formula in session.execute(_MORE, (name,)).fetchall()}
    columns = ", ".join(
        f"{ident(column.name)} {qualified(column.base_schema, column.base)}{more[column.name][0]}"
        f"{more[column.name][1] if column.generated else ''}"
        for column in there.columns
    )
    with unnoticed(session):
        session.execute(f"create table {qualified(there.table_schema, there.name)} ({columns})".encode())


def leave_root(session: Connection, tables: Sequence[Table]) -> None:
    """Detach partitions if a function of their root's key fails, so that rows go back into each of them."""
    steps = read_steps(session)
    names = {table.oid: qualified(table.table_schema, table.name) for table in tables}
    places = (staging_table(table, steps) for table in tables)
    failures = (
        failure_of_bound(session, names[place.oid], qualified(place.table_schema, place.name)) for place in places
    )
    if (error := next(filter(None, failures), None)) is None:
        return
    with session.transaction():
        for table in tables:
            note_step(session, _left(table))
            dropped = detach(session, names[table.oid], error)
            note_result(session, _left(table), json.dumps([dropped.to_dict()] if dropped else []))


def bring_back(session: Connection, table: Table, *, reason: str | None = None) -> None:
    """Move the rows from the staging table into their table.

    :param reason: conditions of the table that they break are dropped, and noted with this, or else with what the
        server says; None: there are none that give way.
    :raises MisfitError: the table does not take them, and never will.
    """
    try:
        with once(session, _returned(table)) as is_new:
            if is_new:
                _bring_back(session, table, reason)
    except psycopg.Error as error:
        not_taken(session, f"{table.label} does not take its rows", error)


def _bring_back(session: Connection, table: Table, reason: str | None) -> None:
    steps = read_steps(session)
    there = staging_table(table, steps)
    source, target = (qualified(each.table_schema, each.name) for each in (there, table))
    computed = set(first_column(session, _COMPUTED_HERE, (target,)))  # not, where a formula has given way
    kept = [column.name for column in table.columns if column.name not in computed]
    dropped = _read_dropped(steps.get(_left(table)))
    session.execute("set local synchronous_commit = off")
    while (error := refusal_of(session, _insert(target, source, kept))) is not None:
        condition = None if reason is None else _give_way(session, table, source, error, reason)
        if condition is None and reason is not None and there.columns != table.columns:
            condition = drop_expression(session, target, kept, error)
        if condition is None:
            raise error
        kept += [condition.column] if condition.column else []
        dropped.append(condition)
    with unnoticed(session):  # an event trigger that refuses it all the same leaves it to the end of the ledger
        refusal_of(session, f"drop table {source}")
    note_result(session, _returned(table), json.dumps([each.to_dict() for each in dropped]))


def _insert(target: str, source: str, columns: Iterable[str]) -> str:
    names = ", ".join(map(ident, columns))
    return f"insert into {target} ({names}) overriding system value select {names} from {source}"


def put_conditions_back(session: Connection, table: Table) -> None:
    """Add the dropped conditions of a table again; what rows still break is added `NOT VALID`."""
    with once(session, _conditions(table)) as is_new:
        if not is_new:
            return
        dropped = _read_dropped(read_result(session, _returned(table)))
        left = [each for condition in reversed(dropped) if (each := add_again(session, condition)) is not None]
        note_result(session, _conditions(table), json.dumps([each.describe() for each in left]))


def _read_dropped(noted: str | None) -> list[RelaxedConstraint]:
    return [RelaxedConstraint.from_dict(each) for each in json.loads(noted or "[]")]


def left_out(table: Table, steps: Mapping[str, str]) -> Sequence[NotRestored]:
    """Return the conditions of a table that are not as they were, the last one dropped first."""
    if (put_back := steps.get(_conditions(table))) is not None:
        return [NotRestored.from_dict(each) for each in json.loads(put_back or "[]")]
    noted = json.loads(steps.get(_returned(table)) or "[]")
    return [NotRestored.from_dict(each) for each in reversed(noted)]


def _give_way(
    session: Connection, table: Table, rows: str, error: psycopg.Error, reason: str
) -> RelaxedConstraint | None:
    """Drop a condition that refuses a row, of the table or of a partition that rows go on to."""
    for name in _refusing(session, table, error):
        if (condition := drop_condition(session, name, rows, error, reason)) is not None:
            return condition
    return None


def _refusing(session: Connection, table: Table, error: psycopg.Error) -> Iterator[str]:
    """Yield the tables that may have refused a row: of several partitions the server may name the one."""
    name, diag = qualified(table.table_schema, table.name), error.diag
    if table.has_rows:
        yield name
    elif diag.schema_name and diag.table_name:
        yield qualified(diag.schema_name, diag.table_name)
    else:
        yield name
        yield from (partition for (partition,) in session.execute(_BELOW, (name,)).fetchall())


def _moved(table: Table) -> str:
    return f"aside {table.oid}"


def _left(table: Table) -> str:
    return f"left root {table.oid}"


def _returned(table: Table) -> str:
    return f"back {table.oid}"


def _conditions(table: Table) -> str:
    return f"conditions {table.oid}"
