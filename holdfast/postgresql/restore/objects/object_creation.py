"""Creation of a plan's objects, before and after the rows, each step once (`ledger.once`)."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from itertools import groupby, islice
from threading import Lock
from typing import TYPE_CHECKING

import psycopg

from holdfast.common.errors import HoldfastError, RefusedError
from holdfast.postgresql.catalog.own_objects import LEDGER
from holdfast.postgresql.connection.session import first_column, is_refusal, refusal_of, server_error, session_role
from holdfast.postgresql.connection.session_errors import words
from holdfast.postgresql.connection.sql import ident, literal, qualified
from holdfast.postgresql.dump.dump_entries import TABLES
from holdfast.postgresql.dump.sql_tokens import chains
from holdfast.postgresql.restore.objects.entry_creation import OWNER, create, is_refused
from holdfast.postgresql.restore.plan.ledger import (
    drop_ledger,
    end_ledger,
    note_left_out,
    noted,
    once,
    read_left_out,
)
from holdfast.postgresql.restore.plan.plan import NotRestored
from holdfast.postgresql.restore.plan.relaxed_constraints import NOT_VALID
from holdfast.postgresql.restore.plan.selection import ATTACHED, FOLLOWERS
from holdfast.postgresql.restore.plan.stages import FOREIGN_KEY, acting, after, hiding, stages
from holdfast.postgresql.restore.rights.lent_rights import lend_extensions, referred
from holdfast.postgresql.restore.rights.superuser_entries import FOUNDATION, LAST

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from holdfast.postgresql.catalog.large_objects import LargeObjectGroup
    from holdfast.postgresql.connection.parallel_sessions import Sessions
    from holdfast.postgresql.connection.session import Connection
    from holdfast.postgresql.dump.dump_entries import DumpEntry
    from holdfast.postgresql.restore.plan.plan import RestorePlan

LOCK_WAIT_S = 60.0
"""How long a foreign key waits for a table that others use, while their writers queue behind it."""

_BATCH = 500
"""Entries in one transaction: it keeps the lock of each table, and a server has room for a few thousand."""

_TAKEN = (psycopg.errors.DuplicateObject, psycopg.errors.DuplicateTable, psycopg.errors.DuplicateFunction)
_AS_OWNER = "restore as the owner of what the table belongs to, or say --trust-source"

SETTINGS = "set check_function_bodies = off; set xmloption = content; set client_min_messages = warning"
"""What pg_dump sets for what it writes; the rest of its settings are those of every session."""

# A table of this transaction has privileges already only where the target has defaults for new objects.
_GRANTED_BY_DEFAULT = """
select distinct case c.relkind when 'S' then 'sequence' else 'table' end, c.oid::regclass::text,
  case a.grantee when 0 then 'public' else pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(a.grantee)) end
from holdfast_restore.created n join pg_catalog.pg_class c on n.class = 'pg_catalog.pg_class'::regclass
  and (c.oid = n.object or c.oid in (select d.objid from pg_catalog.pg_depend d where d.refobjid = n.object
    and d.classid = 'pg_catalog.pg_class'::regclass and d.refclassid = 'pg_catalog.pg_class'::regclass
    and d.deptype in ('a', 'i'))),
  pg_catalog.aclexplode(c.relacl) a
where a.grantee <> c.relowner and c.relkind in ('r', 'p', 'v', 'm', 'f', 'S')
"""


class _Count:
    def __init__(self, whole: int, tell: Callable[[int, int], None]) -> None:
        self._made, self._whole, self._tell = 0, whole, tell
        self._guard = Lock()
        self.add(0)

    def add(self, number: int) -> None:
        with self._guard:
            self._made += number
            self._tell(self._made, self._whole)


def create_tables(
    sessions: Sessions,
    extending: Sessions,
    plan: RestorePlan,
    superuser: Sessions | None = None,
    tell: Callable[[int, int], None] = lambda made, whole: None,
) -> tuple[NotRestored, ...]:
    """Create everything that rows need; return what is left out.

    :param sessions: with `SETTINGS`; where the plan has a login, of it.
    :param extending: of the restoring role, for extensions: PostgreSQL's own search_path is what RESET gives there,
        from which some extensions read where they may put things. The path that holds is as empty as elsewhere.
    :param superuser: creates what that login may not.
    :param tell: is called with the objects made so far, of how many, by one thread at a time.
    """
    left: list[NotRestored] = []
    runs = list(_runs(plan))
    count = _Count(sum(len(some) for _, some in runs), tell)
    for start, some in runs:
        is_superusers = superuser is not None and some[0].id in plan.superusers
        by = superuser if superuser is not None and is_superusers else sessions
        if some[0].kind == "EXTENSION":
            by = extending
        size = len(some) if plan.beside else _BATCH
        create = partial(_create_some, plan, some, start, size, count)
        try:
            created = by.run(range(0, len(some), size), create, at_once=1)
        except RefusedError as refused:
            raise RefusedError(f"{refused}{_led_to(refused, left)}") from refused.__cause__
        left += [each for one in created for each in one]
        if superuser is not None and is_superusers:
            superuser.run([plan.login], lend_extensions)
    left = [each for some in sessions.run(left, _give_once_more) for each in some]
    defined = (superuser or sessions).run(plan.large_objects, create_large_objects)
    return (*left, *(each for some in defined for each in some))


def create_large_objects(session: Connection, group: LargeObjectGroup) -> list[NotRestored]:
    """Create large objects, still empty, with owner, privileges and comment, once; return what is refused."""
    waiting, left = group.each(), list[NotRestored]()
    while oids := list(islice(waiting, _BATCH)):
        step = f"large objects {oids[0]}"
        with once(session, step) as is_new:
            if is_new:
                missing = first_column(session, _MISSING, (oids,))
                session.execute("select pg_catalog.lo_create(o) from unnest(%s::oid[]) o", (missing,))
                note_left_out(session, step, _define(session, group, missing))
            left += read_left_out(session, step)
    return left


_MISSING = """
select o::int8 from unnest(%s::oid[]) o
where not exists (select from pg_catalog.pg_largeobject_metadata m where m.oid = o)
"""
"""An earlier release has noted no such steps, so that some may be there."""


def _define(session: Connection, group: LargeObjectGroup, oids: Sequence[int]) -> Iterator[NotRestored]:
    if not oids:
        return
    more = f" and {len(oids) - 1} more" if len(oids) > 1 else ""
    for what, statements in _definition(group, oids, session_role(session)).items():
        done = "; ".join(statements)
        if statements and (error := refusal_of(session, done)) is not None:
            yield NotRestored(f"{what} of large object {oids[0]}{more}", words(error), f"{done};")


def _definition(group: LargeObjectGroup, oids: Sequence[int], creator: str) -> dict[str, list[str]]:
    owner = [f"alter large object {oid} owner to {ident(group.owner)}" for oid in oids if group.owner != creator]
    privileges = []
    if group.grants is not None:
        objects = f"large object {', '.join(map(str, oids))}"
        privileges.append(f"revoke all on {objects} from {ident(group.owner)}, public")
        for grant in group.grants:
            to = ident(grant.grantee) if grant.grantee else "public"
            option = " with grant option" if grant.grantable and grant.grantee != group.owner else ""
            given = f"grant {grant.privilege} on {objects} to {to}{option}"
            privileges += [given] if grant.grantor == group.owner else _as_role(grant.grantor, given)
    said = literal(group.comment or "")
    comment = [f"comment on large object {oid} is {said}" for oid in oids if group.comment is not None]
    return {"owner": owner, "privileges": privileges, "comment": comment}


def _as_role(role: str, statement: str) -> list[str]:
    return [f"set local role {ident(role)}", statement, "set local role none"]


def _runs(plan: RestorePlan) -> Iterator[tuple[int, Sequence[DumpEntry]]]:
    """Yield the entries before the rows, those that one session creates after another together.

    A login comes behind the extensions: when their scripts run, there is no code of the source.
    """
    entries = [entry for entry in plan.entries if entry.section == "pre-data"]
    if plan.login:
        entries = [entry for entry in entries if entry.kind not in LAST]
        entries.sort(key=lambda entry: entry.kind not in FOUNDATION)
    start = 0
    for _, some in groupby(entries, key=lambda entry: (entry.id in plan.superusers, entry.kind == "EXTENSION")):
        run = list(some)
        yield start, run
        start += len(run)


def _create_some(
    plan: RestorePlan,
    entries: Sequence[DumpEntry],
    first: int,
    size: int,
    count: _Count,
    session: Connection,
    start: int,
) -> Sequence[NotRestored]:
    step, some = f"create {first + start}", entries[start : start + size]
    with once(session, step) as is_new:
        if is_new:
            note_left_out(session, step, (_create_beside if plan.beside else _create)(session, plan, some, count))
        else:
            count.add(len(some))
        return read_left_out(session, step)


def _give_once_more(session: Connection, left: NotRestored) -> Sequence[NotRestored]:
    """Give an object to its owner once more, who may have got the right only behind it."""
    if not left.what.startswith(OWNER):
        return [left]
    step = f"again: {left.what}"
    with once(session, step) as is_new:
        if is_new and (why := refusal_of(session, left.statement)) is not None:
            note_left_out(session, step, [replace(left, reason=words(why))])
        return read_left_out(session, step)


def _create(session: Connection, plan: RestorePlan, entries: Sequence[DumpEntry], count: _Count) -> list[NotRestored]:
    left: list[NotRestored] = []
    for entry in entries:
        _create_as_allowed(session, plan, entry, left)
        count.add(1)
    return left


def _create_as_allowed(session: Connection, plan: RestorePlan, entry: DumpEntry, left: list[NotRestored]) -> None:
    """Create an entry as far as the server allows; one that is no table may be left out."""
    try:
        left += create(session, plan, entry)
    except HoldfastError as refused:
        is_taken = plan.beside and isinstance(refused.__cause__, _TAKEN)
        if plan.is_strict or is_taken or not is_refused(session, refused):
            raise
        if entry.kind in TABLES:
            is_denied = isinstance(refused.__cause__, psycopg.errors.InsufficientPrivilege)
            remedy = f": {_AS_OWNER}" if plan.login and is_denied else ""
            raise RefusedError(f"{refused}{remedy}{_led_to(refused, left)}") from refused.__cause__
        left.append(_left_out(entry, refused))


def _led_to(refused: HoldfastError, left: Sequence[NotRestored]) -> str:
    named = [each for each in left if each.what.rpartition(" ")[2] in str(refused)]
    return "".join(f"; before that, {each.what}: {each.reason}" for each in named)


def _create_beside(
    session: Connection, plan: RestorePlan, entries: Sequence[DumpEntry], count: _Count
) -> list[NotRestored]:
    with noted(session):
        left = _create(session, plan, [entry for entry in entries if entry.kind != "ACL"], count)
    for kind, name, role in session.execute(_GRANTED_BY_DEFAULT).fetchall():
        session.execute(f"revoke all on {kind} {name} from {role}".encode())
    return [*left, *_create(session, plan, [entry for entry in entries if entry.kind == "ACL"], count)]


def create_rest(
    sessions: Sessions,
    plan: RestorePlan,
    superuser: Sessions | None = None,
    tell: Callable[[int, int], None] = lambda made, whole: None,
) -> tuple[NotRestored, ...]:
    """Create the entries that follow the rows, such as indexes and constraints; return what is left out.

    Rows are right by now: what the server refuses is left out, with what needs it, unless the plan is strict. A foreign
    key that rows break is there then, but `NOT VALID`, where the server takes that: before version 18 not on a
    partitioned table. What is borrowed is left out in any case. What hides rows or acts on the restore itself comes
    later.

    :param sessions, superuser, tell: as of `create_tables`; indexes and keys use all sessions.
    """
    left: list[Sequence[NotRestored]] = []
    late = LAST if plan.login else ()
    rest = stages([entry for entry in plan.entries if entry.kind not in late])
    count = _Count(sum(len(stage.entries) for stage in rest), tell)

    def create_one(session: Connection, entry: DumpEntry) -> Sequence[NotRestored]:
        some = _create_once(plan, session, entry)
        count.add(1)
        return some

    for stage in rest:
        own = [entry for entry in stage.entries if superuser is None or entry.id not in plan.superusers]
        some = replace(stage, entries=tuple(own))
        at_once = None if stage.is_parallel else 1
        left += sessions.run(own, create_one, at_once=at_once, after=after(some, plan.entries))
        if superuser is not None:
            others = [entry for entry in stage.entries if entry.id in plan.superusers]
            left += superuser.run(others, create_one, at_once=1)
    return tuple(each for some in left for each in some)


def hide_rows(sessions: Sessions, plan: RestorePlan) -> tuple[NotRestored, ...]:
    """Enable row-level security, after which policies may hide rows from owners, too."""
    left = sessions.run(hiding(plan.entries), partial(_create_once, plan), at_once=1)
    return tuple(each for some in left for each in some)


def finish(session: Connection, plan: RestorePlan) -> tuple[NotRestored, ...]:
    """Drop the ledger, and create event triggers, in one transaction; return what is refused.

    Event triggers may act on everything that is done in the target.
    """
    with session.transaction():
        left = _drop_ledger(session)
        for entry in acting(plan.entries):
            _create_as_allowed(session, plan, entry, left)
    return tuple(left)


def _drop_ledger(session: Connection) -> list[NotRestored]:
    try:
        with session.transaction():
            drop_ledger(session)
    except psycopg.Error as error:
        if not is_refusal(session, error):
            raise
        end_ledger(session)
        return [NotRestored(f"(left behind) schema {LEDGER}", words(error), f"drop schema {LEDGER} cascade;")]
    return []


def _create_once(plan: RestorePlan, session: Connection, entry: DumpEntry) -> Sequence[NotRestored]:
    borrowed, is_key = entry.id in plan.borrowed, entry.kind == FOREIGN_KEY
    is_object = plan.beside and entry.kind not in ATTACHED | FOLLOWERS
    step = f"create {entry.id} {entry.kind}"
    is_elsewhere = is_key and referred(entry) not in plan.table_names  # it belongs to another role
    if plan.login and is_elsewhere and is_compared_by_code(session, entry):
        return [_left_out(entry, RefusedError("a cast of the source would run with rights of the other table's owner"))]
    try:
        with once(session, step) as is_new:
            if is_new:
                if borrowed and is_key:
                    session.execute(f"set local lock_timeout = {int(LOCK_WAIT_S * 1000)}")
                with noted(session) if is_object else nullcontext():
                    note_left_out(session, step, create(session, plan, entry))
            return read_left_out(session, step)
    except HoldfastError as error:
        gives_way = borrowed or not plan.is_strict
        if session.broken or not ((borrowed and is_key) or (gives_way and is_refused(session, error))):
            raise
        return _not_valid(session, entry, step, error) if is_key and not borrowed else [_left_out(entry, error)]


def is_compared_by_code(session: Connection, key: DumpEntry) -> bool:
    """Return whether functions of the source may compare a key's columns, as the other table's owner."""
    table = next(chains(key.sql))
    return session.execute(_CASTING, (qualified(*table[:2]),)).fetchone() is not None


_CASTING = """
with recursive types (type) as (
  select atttypid from pg_catalog.pg_attribute where attrelid = pg_catalog.to_regclass(%s) and attnum > 0
  union select t.typbasetype from types join pg_catalog.pg_type t on t.oid = type and t.typtype = 'd'
)
select from types join pg_catalog.pg_cast c on c.castsource = type and c.castcontext = 'i'
join pg_catalog.pg_proc p on p.oid = c.castfunc where p.pronamespace <> 'pg_catalog'::pg_catalog.regnamespace limit 1
"""

_ADDED = """
select conrelid::regclass::text, pg_catalog.quote_ident(conname) from pg_catalog.pg_constraint
where contype = 'f' and conparentid = 0 and not convalidated
  and xmin::text = pg_catalog.pg_current_xact_id()::xid::text
"""


def _not_valid(session: Connection, entry: DumpEntry, step: str, refused: HoldfastError) -> Sequence[NotRestored]:
    """Create a foreign key as NOT VALID, or else leave it out.

    :param refused: what the server said to the key as it was.
    """
    try:
        with once(session, step) as is_new:
            if not is_new:
                return read_left_out(session, step) or [_left_out(entry, refused)]
            session.execute(f"{entry.settings} {entry.sql.rstrip().removesuffix(';')} NOT VALID;".encode())
            table, name = session.execute(_ADDED).fetchone() or ("", "")
            reason = f"{NOT_VALID}{words(refused.__cause__ or refused)}"
            left = NotRestored(entry.label, reason, f"alter table {table} validate constraint {name};")
            note_left_out(session, step, [left])
            return [left]
    except psycopg.Error as error:
        if not is_refusal(session, error):
            raise server_error(f"{entry.label} could not be created", error) from error
        return [_left_out(entry, refused)]


def _left_out(entry: DumpEntry, error: HoldfastError) -> NotRestored:
    return NotRestored(entry.label, words(error.__cause__ or error), entry.sql)
