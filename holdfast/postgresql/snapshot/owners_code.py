"""Code of tables' owners that planning a query runs.

The planner loads and folds expressions of indexes and of statistics, predicates, policies and the like, with the rights
of the session, also where the query asks for none of it; no setting of a session keeps it from that. A plain COPY of a
table plans nothing. So a query is planned only of a table that has none of these, looked at before it and after it,
outside of the snapshot: the planner, too, sees what is there now.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from holdfast.common.errors import RefusedError
from holdfast.common.words import named

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from holdfast.postgresql.catalog.catalog import Catalog
    from holdfast.postgresql.catalog.table import Table
    from holdfast.postgresql.connection.session import Connection

# CHECKs and the bounds of partitions are for constraint_exclusion alone, which is off in a session that reads. Domains,
# casts and operators: a column is asked for as its own type below all domains, by functions of pg_catalog and the
# type's output function, which only a superuser can define. A virtual column has no function of a user's.
_QUERY: Final = """
select c.oid::pg_catalog.int8, f.what || ' of ' || c.oid::pg_catalog.regclass::pg_catalog.text
  || ', which belongs to ' || pg_catalog.pg_get_userbyid(c.relowner)
from pg_catalog.pg_class c join (
  select i.indrelid, 'the expressions of index ' || i.indexrelid::pg_catalog.regclass::pg_catalog.text
  from pg_catalog.pg_index i where i.indexprs is not null or i.indpred is not null
  union all
  select s.stxrelid, 'the expressions of statistics ' || s.stxname
  from pg_catalog.pg_statistic_ext s where s.stxexprs is not null
  union all
  select p.polrelid, 'policy ' || p.polname from pg_catalog.pg_policy p
  union all
  select r.ev_class, 'rule ' || r.rulename from pg_catalog.pg_rewrite r
) f (relation, what) on f.relation = c.oid
where c.relkind = 'r' and c.oid >= 16384
order by 1, 2
"""


def owners_code(now: Connection) -> dict[int, tuple[str, ...]]:
    """Return what planning a query would evaluate, by table oid.

    :param now: a session outside of any snapshot.
    """
    found: dict[int, tuple[str, ...]] = {}
    for oid, what in now.execute(_QUERY.encode()):
        found[oid] = (*found.get(oid, ()), what)
    return found


def refuse_owners_code(found: Mapping[int, tuple[str, ...]], queried: Collection[int]) -> None:
    """Refuse what was read by queries of tables that have something by now.

    :param queried: oids of the tables.
    :raises RefusedError: naming it with its owner.
    """
    if appeared := [what for oid, some in found.items() if oid in queried for what in some]:
        raise RefusedError(
            f"{named(appeared)}: this came while rows were read by queries, which may have run it with the rights of "
            "the backup, so that nothing was committed. Look at it, then back up again: the table is read without "
            "queries then"
        )


def readable_columns(catalog: Catalog, found: Mapping[int, tuple[str, ...]]) -> Catalog:
    """Return a catalog without values of columns that only queries read.

    They count as virtual ones.
    """

    def readable(table: Table) -> Table:
        columns = tuple(replace(column, generated=column.generated and "v") for column in table.columns)
        return table.model_copy(update={"columns": columns}) if table.oid in found else table

    return catalog.model_copy(update={"tables": tuple(map(readable, catalog.tables))})


def unreadable_columns(catalog: Catalog, found: Mapping[int, tuple[str, ...]]) -> tuple[str, ...]:
    """Return the generated columns that only a query could read.

    Each comes with what would run.
    """
    return tuple(
        f"the values of generated column {table.label}.{column.name}, which a restore computes again: a query of them "
        f"would run {named(found[table.oid])}"
        for table in catalog.with_rows()
        for column in table.columns
        if column.generated == "s" and table.oid in found
    )
