"""Configuration rows: the user's rows in tables of extensions.

Other rows of these tables come with CREATE EXTENSION.

An extension names such a table, with a condition that tells the user's rows from its own, by
pg_extension_config_dump(). They are read whole, as pg_dump does, and replace what the extension made of them in a
target. Source: PostgreSQL manual, 'Extension Configuration Tables'.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import psycopg

from holdfast.postgresql.catalog.record import CatalogRecord
from holdfast.postgresql.connection.session import is_refusal
from holdfast.postgresql.connection.session_errors import words
from holdfast.postgresql.connection.sql import ident, qualified

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.postgresql.connection.session import Connection

_Key = tuple[str, str, str]

CONFIGURED = "c.oid in (select pg_catalog.unnest(e.extconfig) from pg_catalog.pg_extension e)"
"""Of a query's pg_class `c`: an extension keeps rows of its users there, or numbers for these."""

READABLE = """(pg_catalog.has_schema_privilege(c.relnamespace, 'usage') and case c.relkind
  when 'S' then pg_catalog.has_sequence_privilege(c.oid, 'select')
  else pg_catalog.has_table_privilege(c.oid, 'select') end)"""
"""Of a query's pg_class `c`."""

MOST_BYTES: Final = 64 << 20
"""Of one table's rows, which are kept in the record of the database's objects."""


class Configuration(CatalogRecord):
    """Configuration rows of one table.

    :param columns: those that are not generated.
    :param rows: as COPY writes them as text, in order.
    :param failed: why they could not be read; "" where they could.
    :param note: why they may not be those of the moment that is restored; "" in what is stored.
    """

    extension: str
    table_schema: str
    name: str
    columns: tuple[str, ...]
    rows: tuple[str, ...] = ()
    failed: str = ""
    note: str = ""

    @property
    def label(self) -> str:
        """Return the display name."""
        return f"configuration rows of {self.table_schema}.{self.name}"

    @property
    def key(self) -> _Key:
        """Return the identifying key: extension, schema and table."""
        return self.extension, self.table_schema, self.name


_TABLES = f"""
select e.extname::text, n.nspname::text, c.relname::text, coalesce(k.condition, ''),
  array(select a.attname::text from pg_catalog.pg_attribute a where a.attrelid = c.oid and a.attnum > 0
    and not a.attisdropped and a.attgenerated = '' order by a.attnum),
  (select r.rolsuper from pg_catalog.pg_roles r where r.oid = c.relowner), pg_catalog.pg_get_userbyid(c.relowner)
from pg_catalog.pg_extension e cross join lateral unnest(e.extconfig, e.extcondition) k (oid, condition)
join pg_catalog.pg_class c on c.oid = k.oid join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where c.relkind = 'r' and {READABLE}
order by 1, 2, 3
"""


def read_configuration(session: Connection) -> Iterator[Configuration]:
    """Read all configuration rows of the session's database, as of its snapshot.

    Tables that its role may not read are left out.
    """
    for extension, schema, name, condition, columns, is_superusers, owner in session.execute(_TABLES).fetchall():
        found = Configuration(extension=extension, table_schema=schema, name=name, columns=tuple(columns))
        if condition and not is_superusers:
            why = (
                f"the extension chooses them by a condition, and a query would run what {owner}, who is no superuser, "
                f"adds to the table: give it to one (alter table {table_name(found)} owner to ...)"
            )
            yield found.model_copy(update={"failed": why})
            continue
        try:
            with session.transaction():
                rows = read_rows(session, found, condition)
        except psycopg.Error as error:
            if not is_refusal(session, error):
                raise
            yield found.model_copy(update={"failed": words(error)})
        except _TooManyError as error:
            yield found.model_copy(update={"failed": str(error)})
        else:
            yield found.model_copy(update={"rows": rows})


class _TooManyError(Exception):
    """More bytes than a record should hold."""


def read_rows(session: Connection, table: Configuration, condition: str) -> tuple[str, ...]:
    """Read a table's rows that match a condition, as sorted lines of COPY text.

    With a condition it is a query, which the server plans: code of the table's owner may run.
    """
    columns = f" ({column_list(table)})" if table.columns else ""
    query = f"copy {table_name(table)}{columns} to stdout"
    if condition:
        query = f"copy (select {column_list(table)} from only {table_name(table)} {condition}) to stdout"
    size, parts = 0, []
    with session.cursor().copy(query.encode()) as copy:
        for part in copy:
            size += len(part)
            if size > MOST_BYTES:
                raise _TooManyError(f"they are more than {MOST_BYTES >> 20} MiB")
            parts.append(bytes(part))
    lines = b"".join(parts).decode().split("\n")
    return tuple(sorted(lines[:-1]))


def table_name(table: Configuration) -> str:
    """Return the table's name as SQL writes it."""
    return qualified(table.table_schema, table.name)


def column_list(table: Configuration) -> str:
    """Return the names of its columns as SQL writes them."""
    return ", ".join(map(ident, table.columns))


def of_moment(
    wanted: Sequence[Configuration], before: Sequence[Configuration], after: Sequence[Configuration] | None
) -> Iterator[Configuration]:
    """Yield the configuration rows for a position between two backups.

    They are those that the earlier backup read.

    :param wanted: those of the backup whose schema the moment has.
    :param before: those of the earlier backup.
    :param after: those of the later one; None: they are not known.
    """
    earlier = {each.key: each for each in before}
    later = None if after is None else {each.key: each.rows for each in after}
    for each in wanted:
        found = earlier.get(each.key, each)
        note = ""
        if later is None:
            note = "they are of the backup before this moment, and whether they changed by then is not known"
        elif later.get(each.key) != found.rows:
            note = "they are of the backup before this moment, and changed until the next one"
        yield found.model_copy(update={"note": note})
