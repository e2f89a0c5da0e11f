"""Missing rights of a restore's role in its target, looked for before anything is written.

A managed cloud gives nobody a superuser, and what its administrator may do instead differs from one to the next. So the
server is asked: by its own functions where these answer, and else by trying, in a transaction that is taken back.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

import psycopg

from holdfast.common.errors import RefusedError
from holdfast.common.words import named
from holdfast.postgresql.connection.session import first_column
from holdfast.postgresql.connection.session_errors import words
from holdfast.postgresql.dump.dump_entries import ROUTINES
from holdfast.postgresql.dump.sql_tokens import solid, statements, text_of, tokens
from holdfast.postgresql.restore.plan.plan import NotRestored

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from holdfast.postgresql.connection.session import Connection
    from holdfast.postgresql.dump.dump_entries import DumpEntry
    from holdfast.postgresql.restore.plan.plan import RestorePlan

_PROBE = "holdfast_probe"

_TRIGGER = f"""
create function pg_temp.{_PROBE}() returns event_trigger language plpgsql as 'begin end';
create event trigger {_PROBE} on ddl_command_end execute function pg_temp.{_PROBE}()
"""

_FUNCTION = f"create function pg_temp.{_PROBE}() returns int language sql {{setting}} as 'select 1'"

_STRANGERS = """
select rolname::text from pg_catalog.pg_roles
where rolname = any(%s) and not pg_catalog.pg_has_role(oid, case when {version} >= 160000 then 'SET' else 'MEMBER' end)
"""

_SCHEMAS = "select nspname::text, pg_catalog.pg_get_userbyid(nspowner)::text from pg_catalog.pg_namespace"

_OTHERS_EXTENSIONS = """
select extname::text from pg_catalog.pg_extension where not pg_catalog.pg_has_role(extowner, 'USAGE')
"""


def within_rights(session: Connection, plan: RestorePlan, *, strict: bool) -> RestorePlan:
    """Return a plan without the parts that the session's role may not do, which it names."""
    row = session.execute("select rolsuper from pg_catalog.pg_roles where rolname = current_user").fetchone()
    if row is not None and row[0]:
        return plan
    asked = _Asked(session, plan.entries)
    denied = [each for entry in plan.entries for each in asked.denied(entry)]
    if strict and (what := named([report.what for _, _, report in denied if report is not None])):
        raise RefusedError(
            f"{session.info.user} may not create all of it: {what}. Restore as a superuser, or without --strict"
        )
    runs: dict[int, str] = {}
    for entry, text, _ in denied:
        runs[entry.id] = runs.get(entry.id, entry.sql).replace(text, "", 1)
    left = tuple(report for _, _, report in denied if report is not None)
    return replace(plan, runs=runs, not_restored=(*plan.not_restored, *left))


def owners_of(plan: RestorePlan) -> set[str]:
    """Return the roles that own the objects of a plan."""
    owners = {owner for entry in plan.entries for _, owner in owner_statements(entry.sql)}
    return owners | {group.owner for group in plan.large_objects}


@lru_cache(maxsize=1 << 17)  # asked several times of each entry of a dump
def owner_statements(sql: str) -> tuple[tuple[str, str], ...]:
    """Return the `ALTER … OWNER TO` statements of an entry, each with its role."""
    found = []
    for statement in statements(sql):
        words_of = solid(statement)
        if words_of[0].word == "ALTER" and [each.word for each in words_of[-4:-2]] == ["OWNER", "TO"]:
            found.append((text_of(statement), words_of[-2].identifier))
    return tuple(found)


class _Asked:
    """Answers about missing rights; the server is asked once for each kind."""

    def __init__(self, session: Connection, entries: Sequence[DumpEntry]) -> None:
        self._session = session
        self._user = session.info.user
        self._tried: dict[str, str] = {}
        owners = {owner for entry in entries for _, owner in owner_statements(entry.sql)}
        query = _STRANGERS.format(version=session.info.server_version)
        self._strangers: Collection[str] = set(first_column(session, query, (list(owners),)))
        self._extensions: Collection[str] = set(first_column(session, _OTHERS_EXTENSIONS))
        self._schemas: dict[str, str] = dict(session.execute(_SCHEMAS).fetchall())
        self._out: set[int] = set()

    def denied(self, entry: DumpEntry) -> Iterator[tuple[DumpEntry, str, NotRestored | None]]:
        """Yield the parts of an entry that are not run, with a report, or None where it is so already."""
        if reason := self._why_not(entry):
            self._out.add(entry.id)
            yield entry, entry.sql, NotRestored(entry.label, reason, entry.sql)
            return
        for statement, owner in owner_statements(entry.sql):
            if entry.kind == "SCHEMA" and self._schemas.get(entry.name) == owner:
                yield entry, statement, None
            elif owner in self._strangers:
                reason = f"{self._user} may not give things to {owner}, since it is no member of that role"
                yield entry, statement, NotRestored(f"owner of {entry.label}", reason, statement)
        if entry.kind in ROUTINES:
            for setting in settings_of(entry.sql):
                if reason := self._try(_FUNCTION.format(setting=setting)):
                    name = " ".join(setting.split()[1:2])
                    altered = next((each for each, _ in owner_statements(entry.sql)), "").rpartition(" OWNER TO ")[0]
                    statement = f"{altered} {setting};" if altered else ""
                    yield entry, setting, NotRestored(f"setting {name} of {entry.label}", reason, statement)

    def _why_not(self, entry: DumpEntry) -> str:
        if self._out.intersection(entry.needs):
            return "what it belongs to is not restored"
        if entry.kind == "EVENT TRIGGER":
            return self._try(_TRIGGER)
        if entry.kind == "PUBLICATION" and has_words(entry.sql, "FOR", "ALL"):
            return self._try(f"create publication {_PROBE} for all tables")
        if entry.kind == "PUBLICATION TABLES IN SCHEMA":
            return self._try(f"create publication {_PROBE} for tables in schema pg_catalog")
        if entry.kind == "COMMENT" and entry.name.removeprefix("EXTENSION ") in self._extensions:
            return f"the extension is there, and belongs to another role than {self._user}"
        return ""

    def _try(self, statement: str) -> str:
        """Return the server's denial of a statement; "" where there is none, or another failure."""
        if statement not in self._tried:
            self._tried[statement] = ""
            try:
                with self._session.transaction(force_rollback=True):
                    self._session.execute(statement.encode())
            except psycopg.errors.InsufficientPrivilege as error:
                self._tried[statement] = words(error)
            except psycopg.Error:
                if self._session.broken:
                    raise
        return self._tried[statement]


def has_words(sql: str, *wanted: str) -> bool:
    """Return whether words stand in a statement, one after the other."""
    found = [token.word for token in solid(tokens(sql))]
    return any(tuple(found[place : place + len(wanted)]) == wanted for place in range(len(found)))


def settings_of(sql: str) -> Iterator[str]:
    """Yield the SET clauses of a routine: each on a line of its own, before the routine's text."""
    found = list(tokens(sql))
    for place, token in enumerate(found):
        if token.word == "AS" or token.word in ("BEGIN", "RETURN"):
            return
        if token.word == "SET" and place and "\n" in found[place - 1].text:
            yield text_of(found[place:]).partition("\n")[0]
