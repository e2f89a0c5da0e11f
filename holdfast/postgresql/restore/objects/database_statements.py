"""Settings, privileges and comment of the database itself, in the target of a restore.

Its statements are made of names and values, none of the archive's text: a superuser may run them, but for settings that
load code or that only superusers change.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.common.errors import HoldfastError
from holdfast.common.words import named
from holdfast.postgresql.catalog.database_settings import for_superusers
from holdfast.postgresql.connection.session import connect, refusal_of
from holdfast.postgresql.connection.session_errors import words
from holdfast.postgresql.restore.plan.plan import NotRestored

if TYPE_CHECKING:
    from collections.abc import Collection

    from holdfast.postgresql.catalog.database_settings import DatabaseSettings, DatabaseStatement
    from holdfast.postgresql.connection.address import Address
    from holdfast.postgresql.connection.session import Connection

_NOT_ASKED = "it comes with everything into an empty database, or with --database-settings keep"
_NOT_RECORDED = "the release that made the backup did not record them"
_FOR_SUPERUSERS = (
    "it may load code, or change what statements mean or what only superusers may: it comes from a signed or encrypted "
    "archive, or with --trust-source"
)

_ROLES = "select rolname from pg_catalog.pg_roles where rolname = any(%s)"


@dataclass(frozen=True)
class DatabasePlan:
    """Planned statements on the database itself.

    :param not_restored: those that do not run, each with the reason.
    """

    statements: tuple[DatabaseStatement, ...] = ()
    not_restored: tuple[NotRestored, ...] = ()

    def describe(self) -> list[str]:
        """Return what they set, for people and scripts."""
        return [statement.what for statement in self.statements]


def plan_database(
    session: Connection,
    recorded: DatabaseSettings | None,
    *,
    is_wanted: bool,
    is_trusted: bool,
    new_roles: Collection[str] = (),
) -> DatabasePlan:
    """Plan what is set on the session's database; `is_trusted` lets a superuser make settings of any kind."""
    if recorded is None:
        what = "settings, privileges and comment of the database"
        return DatabasePlan(not_restored=(NotRestored(what, _NOT_RECORDED),) if is_wanted else ())
    statements = recorded.statements(session.info.dbname)
    if not is_wanted:
        if not statements:
            return DatabasePlan()
        sql = "\n".join(filter(None, (statement.shown for statement in statements)))
        return DatabasePlan(
            not_restored=(
                NotRestored(f"of the database: {named([statement.what for statement in statements])}", _NOT_ASKED, sql),
            )
        )
    is_superuser = session.info.parameter_status("is_superuser") == "on"
    guarded = for_superusers(session, {statement.setting for statement in statements if statement.setting})
    asked = [sorted(recorded.roles)]
    there = {name for (name,) in session.execute(_ROLES, asked)}
    run, left = [], []
    for statement in statements:
        if statement.role and statement.role not in there.union(new_roles):
            left.append(_left_out(statement, f"the target has no role {statement.role}"))
        elif (statement.setting in guarded or statement.replaces_names) and is_superuser and not is_trusted:
            left.append(_left_out(statement, _FOR_SUPERUSERS))
        else:
            run.append(statement)
    return DatabasePlan(tuple(run), tuple(left))


def run_statements(session: Connection, address: Address, plan: DatabasePlan) -> tuple[NotRestored, ...]:
    """Run a plan's statements; return the refused ones, also those by which no session can begin."""
    left = []
    for statement in plan.statements:
        if (error := refusal_of(session, statement.sql)) is not None:
            left.append(_left_out(statement, words(error)))
        elif statement.setting.lower().endswith("preload_libraries") and (why := _why_closed(address)):
            session.execute(statement.undo.encode())
            left.append(_left_out(statement, f"no session could begin with it: {why}"))
    return tuple(left)


def _why_closed(address: Address) -> str:
    try:
        connect(address).close()
    except HoldfastError as error:
        return str(error)
    return ""


def _left_out(statement: DatabaseStatement, reason: str) -> NotRestored:
    return NotRestored(f"{statement.what} of the database", reason, statement.shown)
