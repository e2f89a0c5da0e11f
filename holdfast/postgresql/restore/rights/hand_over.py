"""Objects of a restore given to their owners, when no code of the source can run any more.

Until then all belong to the login that builds. While it still may, it gives what belongs to several owners to roles
that stand in for them. A superuser then gives the objects of each to its owner, by their oids: the server itself names
them, so nothing of the archive's text is in these statements. ALTER … OWNER and GRANT plan nothing.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from holdfast.common.errors import RefusedError
from holdfast.postgresql.catalog.own_objects import LEDGER
from holdfast.postgresql.connection.session import refusal_of
from holdfast.postgresql.connection.session_errors import words
from holdfast.postgresql.connection.sql import ident
from holdfast.postgresql.dump.sql_tokens import Token, solid, statements, text_of
from holdfast.postgresql.restore.plan.ledger import note_left_out, once, read_left_out
from holdfast.postgresql.restore.plan.plan import NotRestored
from holdfast.postgresql.restore.rights.guard import RESET
from holdfast.postgresql.restore.rights.owner_choice import with_roles
from holdfast.postgresql.restore.rights.superuser_entries import LAST, run_as_superuser
from holdfast.postgresql.restore.rights.target_rights import owner_statements

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from holdfast.postgresql.connection.parallel_sessions import Sessions
    from holdfast.postgresql.connection.session import Connection
    from holdfast.postgresql.dump.dump_entries import DumpEntry
    from holdfast.postgresql.restore.plan.plan import RestorePlan

_BATCH = 500
"""Statements in one transaction, each of which keeps the lock of a table."""

_WRITES = "insert, update, delete, truncate"

_OWNER_OIDS = "select rolname::text, oid::text from pg_catalog.pg_roles where rolname = any(%s)"

_STANDS_IN = """
select pg_catalog.format('create role %%I', %(name)s::text)
where not exists (select from pg_catalog.pg_roles where rolname = %(name)s)
union all select pg_catalog.format('grant %%I to %%I', %(name)s::text, %(login)s::text)
union all select pg_catalog.format('grant create on database %%I to %%I', pg_catalog.current_database(), %(name)s::text)
"""

_PLACES = """
select distinct i.schema from pg_catalog.pg_shdepend d
join pg_catalog.pg_database b on b.oid = d.dbid and b.datname = pg_catalog.current_database()
join pg_catalog.pg_roles r on r.oid = d.refobjid and r.rolname = %s,
  pg_catalog.pg_identify_object(d.classid, d.objid, 0) i
where d.refclassid = 'pg_catalog.pg_authid'::regclass and d.deptype = 'o' and i.schema is not null
"""
"""The schemas of what a role owns, quoted."""

_HELD = f"""
select case when i.type in ('function', 'procedure', 'aggregate') then 'routine'
    when i.type = 'composite type' then 'type' when i.type = 'statistics object' then 'statistics' else i.type end,
  i.identity
from pg_catalog.pg_shdepend d
join pg_catalog.pg_database b on b.oid = d.dbid and b.datname = pg_catalog.current_database()
join pg_catalog.pg_roles r on r.oid = d.refobjid and r.rolname = %s,
  pg_catalog.pg_identify_object(d.classid, d.objid, 0) i
where d.refclassid = 'pg_catalog.pg_authid'::regclass and d.deptype = 'o' and i.schema is distinct from '{LEDGER}'
  and not (i.type = 'sequence' and exists (select from pg_catalog.pg_depend o
    where (d.classid, d.objid) = (o.classid, o.objid) and o.refclassid = o.classid and o.deptype in ('a', 'i')))
order by d.classid, d.objid
"""
"""Objects of a role, without sequences that follow the table of their column."""

_MISSING = ("42704", "42P01", "42883", "3F000")
"""SQLSTATEs of what is not there: its creation was refused, and has been named."""


def holders_of(session: Connection, plan: RestorePlan) -> Mapping[str, str]:
    """Return the roles that hold objects, by owner: the login for most, or a stand-in."""
    owners = Counter(owner for entry in plan.entries for _, owner in owner_statements(entry.sql))
    if not owners:
        return {}
    first = max(sorted(owners), key=owners.__getitem__)
    oids: dict[str, str] = dict(session.execute(_OWNER_OIDS, (list(owners),)).fetchall())
    return {name: plan.login if name == first else f"{plan.login}_{oids[name]}" for name in owners if name in oids}


def forbid_writing(session: Connection, plan: RestorePlan, tables: Sequence[str], *, is_over: bool = False) -> None:
    """Take the right to change rows from the login, or give it back.

    Code of one owner could change rows of another, behind the comparison.
    """
    verb, word = ("grant", "to") if is_over else ("revoke", "from")
    with once(session, f"{verb} {_WRITES}") as is_new:
        if is_new:
            for some in _some(tables):
                session.execute(f"{verb} {_WRITES} on {', '.join(some)} {word} {plan.login}".encode())


def mark_owners(
    superuser: Connection, sessions: Sessions, plan: RestorePlan, holders: Mapping[str, str]
) -> tuple[NotRestored, ...]:
    """Give objects to their owners' stand-ins, and make the owners' grants; return what is refused."""
    for name in sorted({*holders.values()} - {plan.login}):
        for (statement,) in superuser.execute(_STANDS_IN, {"name": name, "login": plan.login}).fetchall():
            superuser.execute(statement.encode())
        for (schema,) in superuser.execute(_PLACES, (plan.login,)).fetchall():
            superuser.execute(f"grant create, usage on schema {schema} to {name}".encode())
    marks = [
        (f"owner of {entry.label}", f"{statement.rpartition(' OWNER TO ')[0]} OWNER TO {holders[owner]};", statement)
        for entry in plan.entries
        if entry.id not in plan.superusers
        for statement, owner in owner_statements(entry.sql)
        if holders.get(owner, plan.login) != plan.login
    ]
    grants = [
        (entry.label, "".join(_own_grants(entry, _owner_of(plan, entry), holders)), entry.sql)
        for entry in plan.entries
        if entry.kind == "ACL" and entry.id not in plan.superusers
    ]
    return (
        *_run_all(sessions, "owners", marks),
        *_run_all(sessions, "privileges", [grant for grant in grants if grant[1]]),
    )


def hand_over(session: Connection, plan: RestorePlan, holders: Mapping[str, str]) -> tuple[NotRestored, ...]:
    """Give everything to its owners; return what the server refuses.

    :param session: a superuser's, when the login can log in no more.
    """
    session.execute(f"update {LEDGER}.created set made_by = session_user".encode())
    left: list[NotRestored] = []
    for owner, holder in holders.items():
        held = session.execute(_HELD, (holder,)).fetchall()
        statements_of = [f"alter {kind} {identity} owner to {ident(owner)};" for kind, identity in held]
        left += _all(session, [(statement, statement, statement) for statement in statements_of])
    for entry in plan.entries:
        if entry.kind in LAST and entry.id in plan.superusers:
            left += _refused(session, plan, entry)
        elif entry.kind == "ACL":
            for grantor, tokens in _grants(entry):
                if grantor and tokens[0].word in ("GRANT", "REVOKE"):  # the owner's own are made by now
                    statement = replace(entry, sql=text_of(tokens))
                    left += _refused(session, plan, statement, grantor)
    return tuple(left)


def _refused(session: Connection, plan: RestorePlan, entry: DumpEntry, grantor: str = "none") -> Iterator[NotRestored]:
    try:
        with session.transaction():
            session.execute(f"set local role {ident(grantor)}".encode())
            run_as_superuser(session, entry, plan.login)
    except RefusedError as error:
        yield NotRestored(entry.label, words(error.__cause__ or error), entry.sql)


def _run_all(sessions: Sessions, what: str, some: Sequence[tuple[str, str, str]]) -> Iterator[NotRestored]:
    """Run statements of the archive in sessions of the login, once.

    :param some: what each is, its text, and the text that would do it later.
    """

    def run(session: Connection, start: int) -> list[NotRestored]:
        step = f"{what} from {start}"
        with once(session, step) as is_new:
            if is_new:
                session.execute(RESET.encode())
                note_left_out(session, step, _all(session, some[start : start + _BATCH]))
        return read_left_out(session, step)

    for left in sessions.run(range(0, len(some), _BATCH), run, at_once=1):
        yield from left


def _all(session: Connection, some: Sequence[tuple[str, str, str]]) -> list[NotRestored]:
    left = []
    for batch in _some(some):
        if len(batch) > 1 and refusal_of(session, "\n".join(statement for _, statement, _ in batch)) is None:
            continue
        for what, statement, later in batch:
            error = refusal_of(session, statement)
            if error is not None and error.sqlstate not in _MISSING:
                left.append(NotRestored(what, words(error), later))
    return left


def _some(items: Sequence[Any]) -> Iterator[Any]:
    return (items[start : start + _BATCH] for start in range(0, len(items), _BATCH))


def _owner_of(plan: RestorePlan, entry: DumpEntry) -> str:
    objects = (plan.by_id[need] for need in entry.needs if need in plan.by_id)
    return next((owner for each in objects for _, owner in owner_statements(each.sql)), "")


def _own_grants(entry: DumpEntry, owner: str, holders: Mapping[str, str]) -> Iterator[str]:
    """Yield an entry's statements by its owner, who is another role yet."""
    holder = holders.get(owner, "")
    for grantor, tokens in _grants(entry):
        if not grantor:
            yield "".join(
                holder if holder and is_role and token.identifier == owner else token.text
                for token, is_role in with_roles(tokens)
            )


def _grants(entry: DumpEntry) -> Iterator[tuple[str, Sequence[Token]]]:
    """Yield an entry's statements with the role that grants; "" is the owner."""
    grantor = ""
    for tokens in statements(entry.sql):
        bare = solid(tokens)
        said = [token.word for token in bare[:3]]
        if said == ["SET", "SESSION", "AUTHORIZATION"]:
            grantor = bare[3].identifier
        elif said == ["RESET", "SESSION", "AUTHORIZATION"]:
            grantor = ""
        else:
            yield grantor, tokens
