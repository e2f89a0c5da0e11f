"""Publication of a source's changes: its tables, and their upkeep.

It names its tables one by one, and only such as may be published without harm to their owner (`publishable`); what
has become harmful leaves it. Of a partitioned table the root enters where it has a key, which every partition to come
then has too; else its partitions enter one by one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

import psycopg

from holdfast.common.errors import BusyError, HoldfastError, RefusedError
from holdfast.common.words import named
from holdfast.postgresql.connection.session import first_value, session_role
from holdfast.postgresql.connection.session_errors import words
from holdfast.postgresql.connection.sql import ident
from holdfast.postgresql.logical.publishable import PublishableRelation, read_relations

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from holdfast.postgresql.catalog.table import Table
    from holdfast.postgresql.connection.session import Connection

LOCK_WAIT_S = 10.0
"""To enter, a table is locked against changes of its definition, and only for that moment."""

BATCH = 500
"""Tables that enter in one transaction: each is a lock, and a server has some thousands."""

ROUNDS = 3
"""Times that a publication is brought up to date, beside those that its missing tables need."""

_OPTIONS = "publish = 'insert, update, delete, truncate', publish_via_partition_root = false"


@dataclass(frozen=True)
class PublicationPlan:
    """Missing and surplus tables of a publication.

    :param tables: it was made for.
    :param missing: to add.
    :param surplus: to drop: they have lost their identity, or are not backed up any more.
    :param not_followed: tables that may not enter, by label, each with the reason and what to do.
    :param exists: it is there.
    :param owned: the session's role may do what its owner may, or may create it.
    """

    name: str
    tables: Sequence[Table]
    missing: tuple[PublishableRelation, ...]
    surplus: tuple[PublishableRelation, ...]
    not_followed: Mapping[str, str]
    exists: bool
    owned: bool

    def statements(self, missing: Sequence[PublishableRelation] | None = None) -> tuple[str, ...]:
        """Return the SQL that carries out the plan.

        :param missing: only these of the missing ones.
        """
        added = self.missing if missing is None else missing
        tables = _list(added)
        if not self.exists:
            what = f" FOR TABLE {tables}" if tables else ""
            return (f"CREATE PUBLICATION {ident(self.name)}{what} WITH ({_OPTIONS});",)
        found = []
        if added:
            found.append(f"ALTER PUBLICATION {ident(self.name)} ADD TABLE {tables};")
        if self.surplus:
            found.append(f"ALTER PUBLICATION {ident(self.name)} DROP TABLE {_list(self.surplus)};")
        return tuple(found)


def _list(relations: Sequence[PublishableRelation]) -> str:
    # Without ONLY, the tables that inherit from one would enter with it.
    return ", ".join(f"ONLY {relation.sql}" for relation in relations)


def plan_publication(
    session: Connection, publication: str, tables: Sequence[Table], *, full: Collection[int] = ()
) -> PublicationPlan:
    """Plan the content of a publication for the changes of tables.

    :param tables: all that are backed up of this source; not only those of one backup.
    :param full: oids of those that will have REPLICA IDENTITY FULL by then.
    :raises RefusedError: the publication is one that changes cannot be read from.
    """
    found = read_publication(session, publication)
    if found and found.problem:
        raise RefusedError(f"{found.problem}: drop it (drop publication {ident(publication)}), then start again")
    entries = _entries(session, found.oid) if found else {}
    relations = {
        oid: replace(each, identity="f") if oid in full else each for oid, each in read_relations(session).items()
    }
    choice = _PublicationChoice(session.info.server_version, relations, tables)
    wanted = choice.wanted(entries)
    return PublicationPlan(
        name=publication,
        tables=tables,
        missing=tuple(choice.relations[oid] for oid in wanted if oid not in entries),
        surplus=tuple(relation for oid, relation in choice.relations.items() if oid in entries and oid not in wanted),
        not_followed=dict(choice.reasons()),
        exists=found is not None,
        owned=found.owned if found else _may_create(session),
    )


class _PublicationChoice:
    def __init__(self, version: int, relations: Mapping[int, PublishableRelation], tables: Sequence[Table]) -> None:
        self.relations = relations
        self._version = version
        self._chosen = {table.oid: table.label for table in tables}
        self._parts: dict[int, list[PublishableRelation]] = {}
        for relation in relations.values():
            if relation.parent is not None:
                self._parts.setdefault(relation.parent, []).append(relation)

    def reasons(self) -> Iterator[tuple[str, str]]:
        """Yield the chosen tables that cannot be followed, each with reason and remedy."""
        for oid, label in self._chosen.items():
            relation = self.relations.get(oid)
            if relation is None:
                yield label, "PostgreSQL keeps no changes of it in its log"
            elif relation.kind == "r" and (reason := self._why_not(relation)):
                yield label, reason

    def _why_not(self, relation: PublishableRelation) -> str:
        if never := relation.why_never():
            return never
        lacks = relation.why_no_identity(self._version)
        return f"{lacks}: {relation.remedy(self._version)}" if lacks else ""

    def wanted(self, entries: Mapping[int, int]) -> dict[int, None]:
        """Return the oids of the relations to publish, in order.

        :param entries: oids of what is published now.
        """
        roots = {
            oid: None for oid, each in self.relations.items() if each.kind == "p" and self._enters(each, oid in entries)
        }
        leaves: dict[int, None] = {}
        for oid in self._chosen:
            relation = self.relations.get(oid)
            if relation is None or relation.kind != "r" or self._why_not(relation):
                continue
            # A partition that has an entry of its own keeps it: without it, its changes would seem interrupted.
            if oid in entries or not any(above in roots for above in self._above(relation)):
                leaves[oid] = None
        return {**roots, **leaves}

    def _above(self, relation: PublishableRelation) -> Iterator[int]:
        while relation.parent is not None and relation.parent in self.relations:
            yield relation.parent
            relation = self.relations[relation.parent]

    def _below(self, root: PublishableRelation) -> Iterator[PublishableRelation]:
        for part in self._parts.get(root.oid, ()):
            yield part
            yield from self._below(part)

    def _enters(self, root: PublishableRelation, is_in: bool) -> bool:
        """Return whether the root of partitions is to be published.

        :param is_in: it is already, and stays also where a partition has come meanwhile that nobody could choose.
        """
        if root.why_never() or not root.indexed or root.generated:
            return False
        leaves = [part for part in self._below(root) if part.kind == "r" and part.persistence == "p"]
        if any(part.why_no_identity(self._version) for part in leaves):
            return False
        chosen = [part.oid in self._chosen for part in leaves]
        return (any(chosen) or root.oid in self._chosen) and (is_in or all(chosen))


def reconcile(session: Connection, plan: PublicationPlan) -> Mapping[str, str]:
    """Bring a publication up to date, as far as the session's role may.

    The plan is made again while the tables that enter are locked.

    :return: the tables whose changes cannot be followed, by label, each with the reason and what to do.
    :raises RefusedError: it is not there, or must be changed, and only its owner may; names the SQL.
    :raises BusyError: somebody keeps a table locked.
    """
    if not plan.owned and (not plan.exists or plan.surplus):
        raise RefusedError(_by_owner(session, plan))
    try:
        for _ in range(ROUNDS + len(plan.missing) // BATCH):
            if not (plan.surplus or _addable(plan) or not plan.exists):
                break
            with session.transaction():
                session.execute(f"SET LOCAL lock_timeout = {int(LOCK_WAIT_S * 1000)}")
                _carry_out(session, plan, _addable(plan)[:BATCH])
                plan = plan_publication(session, plan.name, plan.tables)
                # What has lost its key between the look at it and its lock has not entered for anybody else yet.
                if plan.surplus:
                    _carry_out(session, plan, ())
                    plan = plan_publication(session, plan.name, plan.tables)
    except psycopg.errors.LockNotAvailable as error:
        raise BusyError(
            f"tables could not enter publication {plan.name} for {LOCK_WAIT_S:.0f} s: somebody alters one, or builds "
            f"an index ({words(error)}): let it finish, then start again"
        ) from error
    except psycopg.errors.InsufficientPrivilege as error:
        raise RefusedError(f"{words(error)}: {_by_owner(session, plan)}") from error
    except (psycopg.errors.UndefinedTable, psycopg.errors.DuplicateObject, psycopg.errors.UndefinedObject) as error:
        raise HoldfastError(f"publication {plan.name} or its tables were changed by others: {words(error)}") from error
    return not_followed(session, plan)


def not_followed(session: Connection, plan: PublicationPlan) -> Mapping[str, str]:
    """Return a plan's tables missing from the publication now, with reasons."""
    found = read_publication(session, plan.name)
    given = found.followed if found else {}
    missing = (table for table in plan.tables if table.kind == "r" and table.oid not in given)
    return {table.label: plan.not_followed.get(table.label) or _why_missing(plan) for table in missing}


def _addable(plan: PublicationPlan) -> tuple[PublishableRelation, ...]:
    return tuple(each for each in plan.missing if each.owned) if plan.owned else ()


def _carry_out(session: Connection, plan: PublicationPlan, added: Sequence[PublishableRelation]) -> None:
    for statement in plan.statements(added):
        session.execute(statement.encode())


def _why_missing(plan: PublicationPlan) -> str:
    return f"only its owner can add it to publication {plan.name}: holdfast source setup --changes says or runs the SQL"


def _by_owner(session: Connection, plan: PublicationPlan) -> str:
    what = "must be changed" if plan.exists else "is missing"
    why = f" ({named([relation.label for relation in plan.surplus])} would refuse changes)" if plan.surplus else ""
    return (
        f"publication {plan.name} {what}{why}, and {session_role(session)} may not do it: as the tables' owner run "
        f"{' '.join(plan.statements())} (holdfast source setup --changes says or runs it)"
    )


def _may_create(session: Connection) -> bool:
    query = "select pg_catalog.has_database_privilege(pg_catalog.current_database(), 'create')"
    return bool(first_value(session, query))


@dataclass(frozen=True)
class Publication:
    """A publication as it is.

    :param version: changes with every change of its options or its owner, also one that is taken back.
    :param problem: why changes cannot be read from it; "" if they can.
    :param owned: the session's role may do what its owner may.
    :param followed: tables whose changes it gives, by oid; each with a number for the entry it comes by.
    """

    oid: int
    version: str
    problem: str
    owned: bool
    followed: Mapping[int, int] = field(default_factory=dict)


# Columns that not every version has are looked up by name: row filters and column lists and schemas came with 15,
# published generated columns with 18.
_PUBLICATION = """
select p.oid::int8, p.xmin::text, pg_catalog.pg_has_role(p.pubowner, 'usage'), p.puballtables,
  pg_catalog.to_regclass('pg_catalog.pg_publication_namespace') is not null,
  p.pubinsert and p.pubupdate and p.pubdelete and p.pubtruncate, p.pubviaroot,
  coalesce(to_jsonb(p) ->> 'pubgencols', 'n') <> 'n',
  array(select r.prrelid::regclass::text from pg_catalog.pg_publication_rel r where r.prpubid = p.oid
    and (to_jsonb(r) ->> 'prqual' is not null or to_jsonb(r) ->> 'prattrs' is not null) order by 1)
from pg_catalog.pg_publication p where p.pubname = %s
"""

_SCHEMAS = "select exists (select from pg_catalog.pg_publication_namespace where pnpubid = %s)"


def read_publication(session: Connection, name: str) -> Publication | None:
    """Return a publication of the session's database; None: there is none of the name."""
    row = session.execute(_PUBLICATION, (name,)).fetchone()
    if row is None:
        return None
    oid, version, owned, all_tables, has_schemas, everything, via_root, generated, narrowed = row
    schemas = has_schemas and session.execute(_SCHEMAS, (oid,)).fetchone() == (True,)
    problems = {
        "is FOR ALL TABLES, and would make changes of tables without a key fail": all_tables,
        "is FOR TABLES IN SCHEMA, and would make changes of tables without a key fail": schemas,
        "does not publish insert, update, delete and truncate": not everything,
        "publishes partitions under the name of their root": via_root,
        "publishes generated columns": generated,
        f"has a row filter or a list of columns for {named(narrowed)}": narrowed,
    }
    problem = " and ".join(words for words, holds in problems.items() if holds)
    return Publication(oid, version, f"publication {name} {problem}" if problem else "", owned, _followed(session, oid))


def followed(session: Connection, publication: str) -> tuple[int, Mapping[int, int]] | None:
    """Return a publication's oid and its followed tables.

    None where there is no such publication.

    The tables are leaves, by oid, each with what it comes by: the oid of its own entry (pg_publication_rel), or a
    number for the entry of the nearest root above it and how it is attached to that: a detached one is not published.
    """
    found = read_publication(session, publication)
    return (found.oid, found.followed) if found else None


_FOLLOWED = """
with recursive tree(oid, entry, depth) as (
  select r.prrelid, r.oid::int8, 0 from pg_catalog.pg_publication_rel r where r.prpubid = %s
  union all select i.inhrelid, pg_catalog.hashtextextended(t.entry || ' ' || i.xmin, 0), t.depth + 1 from tree t
    join pg_catalog.pg_inherits i on i.inhparent = t.oid join pg_catalog.pg_class c on c.oid = i.inhrelid
  where c.relispartition
)
select distinct on (t.oid) t.oid::int8, t.entry::int8 from tree t join pg_catalog.pg_class c on c.oid = t.oid
where c.relkind = 'r' and c.relpersistence = 'p' order by t.oid, t.depth
"""


def _followed(session: Connection, oid: int) -> Mapping[int, int]:
    return dict(session.execute(_FOLLOWED, (oid,)).fetchall())


class BornTable(NamedTuple):
    """A table that was published before it had its first row."""

    oid: int
    table_schema: str
    name: str


# A catalog's row says which transaction wrote it (xmin) and at which of its commands (cmin). Columns of the system's
# own are written with the table, and never again. To attach a table that is there writes the row of each of its columns
# anew, which is inherited from then on: one that is inherited and as old as the table was made by PARTITION OF.
_MADE_AS_PARTITIONS = """
with recursive tree(oid, above) as (
  select r.prrelid, array[r.xmin::text::int8] from pg_catalog.pg_publication_rel r where r.prpubid = %s
  union all select i.inhrelid, t.above || i.xmin::text::int8 from tree t
    join pg_catalog.pg_inherits i on i.inhparent = t.oid join pg_catalog.pg_class c on c.oid = i.inhrelid
  where c.relispartition
)
select t.oid::int8, n.nspname, c.relname, t.above,
  pg_catalog.pg_snapshot_xmax(pg_catalog.pg_current_snapshot())::text::int8
from tree t join pg_catalog.pg_class c on c.oid = t.oid join pg_catalog.pg_namespace n on n.oid = c.relnamespace
  join pg_catalog.pg_inherits i on i.inhrelid = t.oid
  join pg_catalog.pg_attribute a on a.attrelid = t.oid and a.attname = 'ctid'
where c.relkind = 'r' and c.relpersistence = 'p' and pg_catalog.cardinality(t.above) > 1
  and a.xmin = i.xmin and exists (select from pg_catalog.pg_attribute f where f.attrelid = t.oid and f.attnum > 0
    and not f.attisdropped and f.attinhcount > 0 and f.xmin = a.xmin and f.cmin = a.cmin)
order by 2, 3
"""


def born_since(session: Connection, publication: int, snapshot: str) -> tuple[BornTable, ...]:
    """Return the tables that were made since a snapshot, and published before they had a row.

    These are partitions that were made as such under what was published then already. Every row that they ever had is
    in the log, and a slot that was there sends it.

    :param publication: its oid.
    :param snapshot: `oldest:next:`, ids of transactions: those before the first had ended, the second was yet to come.
    """
    oldest, newest = (int(each) for each in snapshot.split(":")[:2])
    found: dict[BornTable, None] = {}
    for oid, schema, name, above, now in session.execute(_MADE_AS_PARTITIONS, (publication,)):
        *published, made = (_whole_id(xid, now) for xid in above)
        if made >= newest and all(each < oldest for each in published):
            found[BornTable(oid, schema, name)] = None
    return tuple(found)


def _whole_id(xid: int, now: int) -> int:
    """Return a transaction's id with its epoch.

    :param now: the next one's, with its epoch.
    """
    return now - (now - xid) % (1 << 32)


def _entries(session: Connection, oid: int) -> Mapping[int, int]:
    """Return the relations published by name: their oids, with those of the entries."""
    query = "select prrelid::int8, oid::int8 from pg_catalog.pg_publication_rel where prpubid = %s"
    return dict(session.execute(query, (oid,)).fetchall())
