"""Entries of a dump that only a superuser may create.

They are the only text of an archive that a superuser's session runs: one statement a request, so that the server itself
refuses a second one, and of a form that evaluates nothing. Code that would run outside of SQL's rights (functions in C
or in an untrusted language, and what is built of them) needs an archive that nobody can have written to without a key.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import takewhile
from typing import TYPE_CHECKING, Final

import psycopg

from holdfast.common.errors import RefusedError
from holdfast.postgresql.connection.session import server_error
from holdfast.postgresql.dump.dump_entries import ROUTINES, TABLES
from holdfast.postgresql.dump.sql_tokens import COMMENT, solid, statements, tokens
from holdfast.postgresql.restore.plan.plan import NotRestored
from holdfast.postgresql.restore.rights.target_rights import has_words, owner_statements, settings_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from holdfast.postgresql.connection.session import Connection
    from holdfast.postgresql.dump.dump_entries import DumpEntry
    from holdfast.postgresql.dump.sql_tokens import Token
    from holdfast.postgresql.restore.plan.plan import RestorePlan

FOUNDATION: Final = ("SCHEMA", "EXTENSION")
"""Created before any code of the source is there: an extension's script runs with a superuser's rights."""

_NATIVE_CODE = "native code, which has all rights of the server's process"
_REMEDY = (
    "who can write to an archive that is neither signed nor encrypted could have put it there. Sign or encrypt the "
    "archive, or say --trust-source"
)

LAST: Final = ("ACL", "DEFAULT ACL")
"""Said when everything is built."""

_SAFE = {
    *("ACCESS METHOD", "DEFAULT ACL", "EVENT TRIGGER", "EXTENSION", "FOREIGN DATA WRAPPER", "OPERATOR FAMILY"),
    "SUBSCRIPTION",
}
_NATIVE = {"PROCEDURAL LANGUAGE", "TEXT SEARCH PARSER", "TEXT SEARCH TEMPLATE", "TRANSFORM"}
_ABOUT = ("ACL", "COMMENT", "SECURITY LABEL")
"""Entries that say something of another one, which they need."""

_WORDS = {
    "DEFAULT ACL": "DEFAULT PRIVILEGES",
    "PROCEDURAL LANGUAGE": "LANGUAGE",
    "PUBLICATION TABLES IN SCHEMA": "PUBLICATION",
    "SHELL TYPE": "TYPE",
}
"""Kind of object in an entry's statements, where the entry names it otherwise."""

_KINDS = {
    *(*_SAFE, *_NATIVE, *ROUTINES),
    *("AGGREGATE", "OPERATOR CLASS", "PUBLICATION", "PUBLICATION TABLES IN SCHEMA", "SCHEMA", "SHELL TYPE", "TYPE"),
}
"""Kinds that a superuser may create or give to an owner; `ALTER … OWNER TO` takes no list of actions for them."""

_ALTERED = ("DEFAULT ACL", "EVENT TRIGGER", "PUBLICATION", "PUBLICATION TABLES IN SCHEMA")
"""Those that are altered in other ways, too."""

_OWN_ROUTINES = "select pg_catalog.count(*) from pg_catalog.pg_proc where proowner = session_user::pg_catalog.regrole"

_OF_SUPERUSERS = {"EVENT TRIGGER", "FOREIGN DATA WRAPPER", "PROCEDURAL LANGUAGE", "PUBLICATION", "SUBSCRIPTION"}
"""Kinds that a superuser owns, or that run nothing with their owner's rights."""

_GRANTED_ON = {
    *("FOREIGN", "FUNCTION", "LANGUAGE", "LARGE", "PROCEDURE", "ROUTINE", "SCHEMA", "SEQUENCE", "TABLE", "TYPE"),
}


def superuser_entries(entries: Sequence[DumpEntry], settings: Collection[str]) -> Mapping[int, bool]:
    """Return the entries for a superuser, by number, with whether they bring native code.

    :param settings: names of those that only superusers make.
    """
    found = {entry.id: kind == "native" for entry in entries if (kind := _kind(entry, settings))}
    known = {entry.id: entry for entry in entries}
    for entry in entries:
        if entry.kind in _ABOUT:
            objects = [known[need] for need in entry.needs if need in known]
            if not objects or any(each.id in found for each in objects):
                found[entry.id] = any(found.get(each.id, False) for each in objects)
    return found


def superuser_settings(session: Connection) -> frozenset[str]:
    """Return the names of the settings that only superusers make."""
    query = "select name from pg_catalog.pg_settings where context in ('superuser', 'superuser-backend')"
    return frozenset(name for (name,) in session.execute(query))


def without_native_code(plan: RestorePlan, superusers: Mapping[int, bool]) -> RestorePlan:
    """Return a plan without native code, and without what needs it; both are named.

    :param superusers: of the plan's entries, as `superuser_entries` returns them.
    """
    out = {each for each, is_native in superusers.items() if is_native}
    left = []
    for entry in plan.entries:  # what is needed comes first
        if not out.intersection((entry.id, *entry.needs)):
            continue
        if entry.kind in TABLES:
            needed = next(plan.by_id[need].label for need in entry.needs if need in out)
            raise RefusedError(f"{entry.label} needs {needed}, which is {_NATIVE_CODE}: {_REMEDY}")
        reason = _NATIVE_CODE if superusers.get(entry.id) else "what it needs is not restored"
        left.append(NotRestored(entry.label, f"{reason}: {_REMEDY}", entry.sql))
        out.add(entry.id)
    kept = tuple(entry for entry in plan.entries if entry.id not in out)
    return replace(plan, entries=kept, not_restored=(*plan.not_restored, *left))


def run_as_superuser(session: Connection, entry: DumpEntry, login: str) -> None:
    """Create an entry in a superuser's session, by statements of known forms alone.

    What has an owner belongs to the login from then on, unless only superusers own it.
    """
    sql = entry.sql
    if entry.kind not in _OF_SUPERUSERS:
        for statement, _ in owner_statements(sql):
            sql = sql.replace(statement, f"{statement.rpartition(' OWNER TO ')[0]} OWNER TO {login};", 1)
    with session.transaction():
        before = session.execute(_OWN_ROUTINES).fetchone()
        for statement in _allowed(entry, sql):
            try:
                session.execute(statement.encode("utf-8", "surrogateescape"), binary=True)
            except psycopg.Error as error:
                raise server_error(f"{entry.label} could not be created", error) from error
        if entry.kind != "EXTENSION" and session.execute(_OWN_ROUTINES).fetchone() != before:
            raise RefusedError(f"{entry.label} is not created by a superuser: its code would have a superuser's rights")


def _allowed(entry: DumpEntry, sql: str) -> Iterator[str]:
    is_created = False
    for statement in statements(f"{sql};"):
        bare = solid(statement)
        if len(bare) < 2:
            continue
        text = "".join(" " if token.kind == COMMENT else token.text for token in statement)
        if not _has_form(entry, bare) or _evaluates(bare):
            raise RefusedError(f"{entry.label} is not created by a superuser: {text[:200]} is no form that may be")
        if is_created and bare[0].word == "CREATE":
            raise RefusedError(f"{entry.label} is not created by a superuser: it creates more than one thing")
        is_created = is_created or bare[0].word == "CREATE"
        yield text


def _has_form(entry: DumpEntry, statement: Sequence[Token]) -> bool:
    """Return whether a statement has a form of its entry's kind, none of which plans a query.

    Source: PostgreSQL manual, 'SQL Commands'.
    """
    first, *words = [token.word for token in statement]
    if first in ("GRANT", "REVOKE"):
        return any(word == "ON" and words[place + 1] in _GRANTED_ON for place, word in enumerate(words[:-1]))
    if first == "COMMENT":
        return words[0] == "ON"
    if entry.kind == "PROCEDURAL LANGUAGE":
        words = [word for word in words if word not in ("OR", "REPLACE", "TRUSTED", "PROCEDURAL")]
    kind = _WORDS.get(entry.kind, entry.kind).split()
    if entry.kind not in _KINDS or words[: len(kind)] != kind:
        return False
    if first == "CREATE":
        return entry.kind != "SCHEMA"  # it may have others inside
    return first == "ALTER" and (words[-4:-2] == ["OWNER", "TO"] or entry.kind in _ALTERED)


def _evaluates(statement: Sequence[Token]) -> bool:
    """Return whether a statement calls something, or connects to another server."""
    words: Collection[str] = {token.word for token in statement}
    if {"FOREIGN", "WRAPPER"} <= set(words):
        return "VALIDATOR" in words and "OPTIONS" in words
    if "SUBSCRIPTION" in words and statement[0].word == "CREATE":
        text = "".join(token.text.lower() for token in statement)
        return "connect=false" not in text or "enabled=true" in text
    if "AGGREGATE" in words and statement[0].word == "CREATE":
        return "INITCOND" in words or "MINITCOND" in words
    return "PUBLICATION" in words and "WHERE" in words


def _kind(entry: DumpEntry, settings: Collection[str]) -> str:
    """Return "safe" or "native" for an entry that needs a superuser; "" for all others."""
    if entry.kind in _SAFE or (entry.kind == "SCHEMA" and not has_words(entry.sql, "CREATE", "SCHEMA")):
        return "safe"
    if entry.kind in _NATIVE:
        return "native"
    if entry.kind in ("SHELL TYPE", "TYPE"):
        is_base, is_shell = has_words(entry.sql, "INPUT", ""), "(" not in entry.sql
        return "native" if is_base else "safe" if is_shell else ""
    if entry.kind == "OPERATOR CLASS":  # of these methods, the server checks what it is made of
        return "safe" if {"BTREE", "HASH"}.intersection(_after(entry.sql, "USING")) else "native"
    if entry.kind in ("PUBLICATION", "PUBLICATION TABLES IN SCHEMA"):
        is_all = has_words(entry.sql, "FOR", "ALL", "TABLES") or entry.kind != "PUBLICATION"
        return "safe" if is_all else ""
    if entry.kind == "AGGREGATE":
        return "native" if has_words(entry.sql, "STYPE", "", "INTERNAL") else ""
    return _kind_of_routine(entry, settings) if entry.kind in ROUTINES else ""


def _after(sql: str, word: str) -> Iterator[str]:
    words = [token.word for token in solid(tokens(sql))]
    return (words[place + 1] for place, each in enumerate(words[:-1]) if each == word)


def _kind_of_routine(entry: DumpEntry, settings: Collection[str]) -> str:
    head = takewhile(lambda token: token.word not in ("AS", "BEGIN", "RETURN"), tokens(entry.sql))
    words = [token.identifier or token.text.strip("'").lower() for token in solid(head)]
    languages = [words[place + 1] for place, word in enumerate(words[:-1]) if word == "language"]
    if any(name in ("c", "internal") or name.endswith("u") for name in languages):
        return "native"
    makes = {setting.split()[1].lower() for setting in settings_of(entry.sql)}
    return "safe" if not makes.isdisjoint(settings) or not {"leakproof", "support"}.isdisjoint(words) else ""
