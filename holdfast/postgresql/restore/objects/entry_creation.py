"""Creation of one entry: as the source has it, or as near to that as the target allows.

pg_dump writes definitions for an empty search_path, and some of SQL cannot name the operator that it means: NULLIF,
CASE x WHEN, IS DISTINCT FROM, JOIN USING. Such a definition is refused without a path, or it means another operator.
Where the backup says which operators the source's asks, it is created under the path on which these are found.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import psycopg

from holdfast.common.errors import HoldfastError, RefusedError
from holdfast.common.words import named
from holdfast.postgresql.catalog.definitions import read_uses
from holdfast.postgresql.connection.session import SETTINGS_QUERY, is_refusal, refusal_of, server_error
from holdfast.postgresql.connection.session_errors import words
from holdfast.postgresql.connection.sql import ident
from holdfast.postgresql.dump.sql_tokens import COMMENT, SPACE, statements, text_of
from holdfast.postgresql.restore.plan.plan import NotRestored
from holdfast.postgresql.restore.rights.guard import RESET
from holdfast.postgresql.restore.rights.search_paths import lend_to_read
from holdfast.postgresql.restore.rights.superuser_entries import run_as_superuser
from holdfast.postgresql.restore.rights.target_rights import owner_statements

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.postgresql.catalog.definitions import Definition
    from holdfast.postgresql.connection.session import Connection
    from holdfast.postgresql.dump.dump_entries import DumpEntry
    from holdfast.postgresql.dump.sql_tokens import Token
    from holdfast.postgresql.restore.plan.plan import RestorePlan

OWNER: Final = "owner of "

_ABSENT = (psycopg.errors.UndefinedObject, psycopg.errors.UndefinedTable, psycopg.errors.UndefinedFunction)

_NO_PATH = "set local search_path = ''"


class OtherMeaningError(RefusedError):
    """A definition that asks other operators or functions than the source's."""


def create(session: Connection, plan: RestorePlan, entry: DumpEntry) -> tuple[NotRestored, ...]:
    """Create an entry; return what of it is not as in the source.

    :raises HoldfastError: it is not created; `is_refused` tells whether another try would end so, too.
    """
    left: tuple[NotRestored, ...] = ()
    if plan.login and entry.id in plan.superusers:
        run_as_superuser(session, entry, plan.login)
    else:
        left = _Creation(session, plan, entry).run()
    if entry.kind == "EXTENSION":  # some scripts leave a search_path behind
        session.execute(SETTINGS_QUERY.encode())
    return left


def is_refused(session: Connection, error: HoldfastError) -> bool:
    """Return whether a statement was refused, by the server or before it came there."""
    return isinstance(error, RefusedError) if error.__cause__ is None else is_refusal(session, error.__cause__)


class _Creation:
    """Tries to create one entry, from what the source has to what the target takes."""

    def __init__(self, session: Connection, plan: RestorePlan, entry: DumpEntry) -> None:
        self._session = session
        self._plan = plan
        self._entry = entry
        self._sql = plan.sql_of(entry)
        self._owners = [statement for statement, _ in owner_statements(self._sql)]
        if plan.login:  # it owns everything until the end
            self._drop_owners()
            self._owners = []

    def run(self) -> tuple[NotRestored, ...]:
        error = self._refusal()
        if error is None:
            return ()
        left: list[NotRestored] = []
        owners: Sequence[str] = ()
        if not self._plan.is_strict:
            if self._owners:
                owners = self._owners
                self._drop_owners()
                error = self._refusal()
            while error is not None and (parameter := self._unknown_parameter(error)):
                left.append(parameter)
                error = self._refusal()
        path = self._path()
        if error is not None and path:
            error = self._refusal(path) and error
        is_unread = error is not None and not isinstance(error, OtherMeaningError) and not self._plan.is_strict
        if is_unread and lend_to_read(self._session, self._entry, self._plan.by_id):
            error = self._refusal(path)
        if isinstance(error, OtherMeaningError):
            self._execute()
            left.append(NotRestored(f"meaning of {self._entry.label}", words(error), self._entry.sql))
        elif error is not None:
            raise error
        given = ((statement, refusal_of(self._session, statement)) for statement in owners)
        left += [NotRestored(f"{OWNER}{self._entry.label}", words(why), each) for each, why in given if why is not None]
        return tuple(left)

    def _refusal(self, path: str = "") -> HoldfastError | None:
        """Create it and return None, or create nothing and return why it is refused."""
        try:
            with self._session.transaction():
                self._execute(path)
                self._check_meaning()
        except HoldfastError as error:
            if not is_refused(self._session, error):
                raise
            return error
        return None

    def _execute(self, path: str = "") -> None:
        reset = RESET if self._plan.login else ""
        meant = f"set local search_path = {path};" if path else ""
        # Our own statements that follow in the transaction are never under a path of the source's.
        back = f"\n;{_NO_PATH}" if path else ""
        try:
            # Names that all databases of a server share may be in no encoding at all.
            text = f"{reset} {meant} {self._entry.settings} {self._sql}{back}"
            self._session.execute(text.encode("utf-8", "surrogateescape"))
        except psycopg.Error as error:
            raise server_error(f"{self._entry.label} could not be created", error) from error

    @property
    def _definitions(self) -> Sequence[Definition]:
        return self._plan.definitions.get(self._entry.id, ())

    def _check_meaning(self) -> None:
        """Compare what was created with the source's, by what it asks."""
        if not self._definitions:
            return
        self._session.execute(_NO_PATH.encode())
        for definition in self._definitions:
            try:
                uses = read_uses(self._session, definition)
            except _ABSENT as error:
                raise OtherMeaningError(f"{definition} is not found, and cannot be compared: {words(error)}") from error
            wanted = set(map(str, definition.uses))
            if uses != wanted:
                there = f"{named(sorted(wanted - uses))} in the source" if wanted - uses else ""
                here = f"{named(sorted(uses - wanted)) or 'what is built in'} here"
                raise OtherMeaningError(f"{definition} asks {', and '.join(filter(None, (there, here)))}")

    def _path(self) -> str:
        """Return the search_path on which the operators of its definitions are found."""
        schemas = (
            use.names[0] for definition in self._definitions for use in definition.uses if use.kind == "operator"
        )
        return ", ".join(map(ident, dict.fromkeys(schemas)))

    def _drop_owners(self) -> None:
        for statement in self._owners:
            self._sql = self._sql.replace(statement, "", 1)

    def _unknown_parameter(self, error: HoldfastError) -> NotRestored | None:
        """Take the storage parameter out that the server does not know, and return it."""
        cause = error.__cause__
        if not isinstance(cause, psycopg.errors.InvalidParameterValue):
            return None
        message = cause.diag.message_primary or ""
        name, self._sql = without_parameter(self._sql, message)
        return NotRestored(f"parameter {name} of {self._entry.label}", words(cause)) if name else None


def without_parameter(sql: str, message: str) -> tuple[str, str]:
    """Return the storage parameter that a message names, or "", and the statements without it.

    Parameters stand in parentheses behind WITH or SET, and a statement that sets nothing else goes, too. Source:
    PostgreSQL manual, 'CREATE TABLE', 'Storage Parameters'.
    """
    name, out = "", sql
    for statement in statements(sql):
        text = text_of(statement)
        for start, end in _lists(statement):
            listed = text_of(statement[start : end + 1])
            items = [each.strip() for each in listed[listed.index("(") + 1 : -1].split(",")]
            name = name or next((_name(item) for item in items if _is_in(_name(item), message)), "")
            kept = [item for item in items if _name(item) != name]
            if name and len(kept) < len(items):
                word = statement[start].word
                less = text.replace(listed, f"{word} ({', '.join(kept)})" if kept else "", 1)
                out = out.replace(text, "" if word == "SET" and not kept else less, 1)
    return name, out


def _lists(statement: Sequence[Token]) -> Iterator[tuple[int, int]]:
    bare = [place for place, token in enumerate(statement) if token.kind not in (SPACE, COMMENT)]
    for before, place in pairwise(bare):
        if statement[before].word in ("WITH", "SET") and statement[place].text == "(":
            yield before, next((each for each in bare if each > place and statement[each].text == ")"), place)


def _name(item: str) -> str:
    return item.partition("=")[0].strip().replace('"', "")


def _is_in(name: str, message: str) -> bool:
    """Return whether a message has a name, or one of its parts, as a word: each language has its own quotes."""
    parts = "|".join(map(re.escape, filter(None, (name, *name.split(".")))))
    return bool(parts) and re.search(rf"(?<![\w.])({parts})(?![\w.])", message) is not None
