"""What a restore notes in its target while it runs: files loaded, and objects that can be taken back.

A note is made in the transaction that does what it says, so it is true after a crash at any point.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import psycopg

from holdfast.errors import BusyError, RefusedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    Connection = psycopg.Connection[tuple[Any, ...]]

LEDGER = "holdfast_restore"
"""Schema that exists only while a restore runs."""

_LOCK_WAIT = "60s"

_CATALOGS = {
    "pg_namespace": "true",
    "pg_extension": "true",
    "pg_type": "typtype in ('b', 'd', 'e', 'r') or not typisdefined or (typtype = 'c' and typrelid in "
    "(select c.oid from pg_catalog.pg_class c where c.relkind = 'c'))",
    "pg_proc": "true",
    "pg_operator": "true",
    "pg_opclass": "true",
    "pg_opfamily": "true",
    "pg_collation": "true",
    "pg_conversion": "true",
    "pg_cast": "true",
    "pg_language": "true",
    "pg_transform": "true",
    "pg_ts_config": "true",
    "pg_ts_dict": "true",
    "pg_ts_parser": "true",
    "pg_ts_template": "true",
    "pg_foreign_data_wrapper": "true",
    "pg_foreign_server": "true",
    "pg_user_mapping": "true",
    "pg_am": "true",
    "pg_class": "relkind in ('r', 'p', 'v', 'm', 'f', 'S')",
}
"""Catalogs of the objects that a restore creates, and which of their rows stand for one."""

# What is part of another object, or of an extension, goes with it.
_OBJECTS = " union all ".join(
    f"select '{name}'::regclass::oid::int8 as class, t.oid::int8 as object, t.xmin::text as made_by "
    f"from pg_catalog.{name} t where ({condition}) and not exists (select from pg_catalog.pg_depend d "
    f"where d.classid = '{name}'::regclass and d.objid = t.oid and d.objsubid = 0 "
    "and d.deptype in ('e', 'i', 'a') and (d.refclassid, d.refobjid) <> (d.classid, d.objid))"
    for name, condition in _CATALOGS.items()
)

_LEFT = f"""
select c.class, c.object, i.type, i.identity from {LEDGER}.created c,
  pg_catalog.pg_identify_object(c.class, c.object, 0) i where i.identity is not null order by c.place desc
"""

_FOREIGN_KEYS = f"""
select conrelid::regclass::text, quote_ident(conname) from pg_catalog.pg_constraint
where contype = 'f' and conparentid = 0 and (conrelid, 1259) in (select object, class from {LEDGER}.created)
"""


def create_ledger(session: Connection, *, undoable: bool = False) -> None:
    """Create the table that makes loading exactly-once.

    :param undoable: note what is created, too, so that `undo` can drop it.
    """
    session.execute(f"create schema {LEDGER}")
    session.execute(f"create table {LEDGER}.loaded (file text primary key, rows int8 not null)")
    if undoable:
        session.execute(
            f"create table {LEDGER}.created (place int8 generated always as identity, class oid, object oid)"
        )


def drop_ledger(session: Connection) -> None:
    """Remove it: all that was to be restored is there."""
    session.execute(f"drop schema {LEDGER} cascade")


def is_undoable(session: Connection) -> bool:
    """Say whether an unfinished restore has noted what it created."""
    row = session.execute(f"select to_regclass('{LEDGER}.created')").fetchone()
    return row is not None and row[0] is not None


@contextmanager
def noted(session: Connection) -> Iterator[None]:
    """Note what the block creates; it runs in the session's transaction.

    Other sessions create objects meanwhile, and a new table marks its parents' rows as changed: ours is
    what this transaction wrote and what was not there before.
    """
    before = {row[:2] for row in session.execute(_OBJECTS)}
    yield
    own = "pg_catalog.pg_current_xact_id()::xid::text"
    after = session.execute(f"select class, object from ({_OBJECTS}) o where made_by = {own} order by 2").fetchall()
    with session.cursor() as cursor:
        cursor.executemany(
            f"insert into {LEDGER}.created (class, object) values (%s, %s)", [row for row in after if row not in before]
        )


def undo(session: Connection) -> tuple[str, ...]:
    """Drop what an unfinished restore has created, and nothing else, in one transaction. Returns what was dropped.

    :raises RefusedError: something that the restore has not made uses it by now.
    :raises BusyError: somebody reads or writes it, perhaps what is left of the restore itself.
    """
    try:
        with session.transaction():
            return _undo(session)
    except psycopg.errors.LockNotAvailable as error:
        raise BusyError(
            "what an unfinished restore left is in use, so that it cannot be dropped "
            f"({' '.join(str(error).split())}): try again when its last session is gone"
        ) from error


def _undo(session: Connection) -> tuple[str, ...]:
    dropped: list[str] = []
    session.execute(f"set local lock_timeout = '{_LOCK_WAIT}'")
    for table, name in session.execute(_FOREIGN_KEYS).fetchall():
        session.execute(f"alter table {table} drop constraint {name}".encode())
    left = session.execute(_LEFT).fetchall()
    while left:
        refused = [(row, error) for row in left if (error := _drop(session, row[2], row[3])) is not None]
        if len(refused) == len(left):
            raise RefusedError(
                f"an unfinished restore left {left[0][2]} {left[0][3]} behind, which cannot be dropped: "
                f"{' '.join(str(refused[0][1]).split())}. Drop what uses it, then try again"
            )
        kept = [row for row, _ in refused]
        dropped += [f"{row[2]} {row[3]}" for row in left if row not in kept]
        left = session.execute(_LEFT).fetchall()
    drop_ledger(session)
    return tuple(dropped)


def _drop(session: Connection, kind: str, identity: str) -> psycopg.Error | None:
    if kind == "user mapping":
        identity = f"for {identity.replace(' on server ', ' server ')}"
    statement = f"drop {kind.replace('-', ' ')} if exists {identity}"
    try:
        with session.transaction():
            session.execute(statement.encode())
    except psycopg.errors.DependentObjectsStillExist as error:
        return error
    return None
