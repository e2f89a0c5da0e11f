"""Entries of a schema dump, with their kinds, dependencies and SQL.

Read from the script that `pg_restore --file=- --verbose` writes. Unlike `--list`, it separates the parts of each entry
exactly, also where names hold spaces; the SQL is what pg_restore itself would run.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from holdfast.common.errors import DamagedError, HoldfastError
from holdfast.postgresql.catalog.own_objects import (
    GUARD,
    LEDGER,
    LOG_SCHEMA,
    LOG_TRIGGERS,
    PUBLISH_SCHEMA,
    PUBLISH_TRIGGER,
)
from holdfast.postgresql.dump.dump import script_of
from holdfast.postgresql.dump.sql_tokens import COMMENT, Token, chains, tokens

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from holdfast.postgresql.catalog.catalog import Catalog

Section = Literal["pre-data", "post-data"]

TABLES = frozenset({"TABLE", "FOREIGN TABLE"})
ROUTINES = frozenset({"FUNCTION", "PROCEDURE", "AGGREGATE"})
RELATIONS = TABLES | {"VIEW", "MATERIALIZED VIEW"}

_SCHEMAS = frozenset({LOG_SCHEMA, PUBLISH_SCHEMA})
_TRIGGERS = frozenset({*LOG_TRIGGERS, PUBLISH_TRIGGER, GUARD})

_WORDS = {
    "ACL": "privileges",
    "DEFAULT ACL": "default privileges",
    "FK CONSTRAINT": "foreign key",
    "INDEX ATTACH": "attached index",
    "ROW SECURITY": "row-level security",
    "SEQUENCE OWNED BY": "owner of sequence",
    "TABLE ATTACH": "attached partition",
}

_PUBLICATIONS = frozenset({"PUBLICATION", "PUBLICATION TABLE"})
_STREAM = re.compile(r"holdfast_[0-9a-f]{16}")
"""The name of a publication that changes are read through, as `stream.stream_name` makes it."""

_ENTRY = re.compile(r"-- TOC entry (\d+) \(class (\d+) OID (\d+)\)")
_NEEDS = re.compile(r"-- Dependencies: ([\d ]+)")
_TITLE = re.compile(r"-- Name: (?P<name>.*); Type: (?P<kind>[^;]*); Schema: (?P<schema>.*?); Owner: .*")
_LAST = re.compile(r"-- (Completed on |PostgreSQL database dump complete)")
_SETTINGS = re.compile(r"(?:SET default_\w+ = [^;]*;\s*)+\Z")
_BREAK = re.compile(r"[\n\r]")
_BROKEN_NAME = re.compile(r'"[^"]*[\n\r][^"]*"')
_SETTING = re.compile(r"SET (default_\w+) = [^;]*;")


@dataclass(frozen=True)
class DumpEntry:
    """One entry of a dump.

    :param id: its number in the dump, which `needs` of others name.
    :param kind: as pg_dump calls it, such as "TABLE" or "FK CONSTRAINT".
    :param oid: of the object in the source; 0 where the entry is no object of its own.
    :param schema: "" for what is in none.
    :param sql: the statements; `settings` must be made before them.
    """

    id: int
    section: Section
    kind: str
    class_oid: int
    oid: int
    schema: str
    name: str
    needs: tuple[int, ...]
    sql: str
    settings: str = ""

    @property
    def is_relation(self) -> bool:
        """Return whether it is a table or a view of any kind."""
        return self.kind in RELATIONS

    @property
    def bare_name(self) -> str:
        """Return its name without the arguments that stand behind a routine's."""
        if self.kind not in ROUTINES:
            return self.name
        named = (chain[1] for chain in chains(self.sql) if chain[0] == self.schema)
        return next((name for name in named if self.name.startswith(f"{name}(")), self.name.partition("(")[0])

    @property
    def word(self) -> str:
        """Return its kind, for people."""
        return _WORDS.get(self.kind, self.kind.lower())

    @property
    def full_name(self) -> str:
        return f"{self.schema}.{self.name}" if self.schema else self.name

    @property
    def label(self) -> str:
        """Return the display name, such as `index public.orders_pkey`."""
        return f"{self.word} {self.full_name}"


def read_entries(dump: bytes, *, server_version: int) -> tuple[DumpEntry, ...]:
    """Return a dump's entries in an order that allows their creation.

    Publications and event triggers of ours are left out: they belong to the backup of the source, and would never be
    dropped elsewhere. So is what a restore had left in the source, which older releases backed up.

    :param server_version: such as 180006; of the server they are for.
    """
    sections: tuple[Section, ...] = ("pre-data", "post-data")
    return tuple(
        entry
        for section in sections
        for entry in parse_script(script_of(dump, section, server_version=server_version), section)
        if not _is_ours(entry)
    )


def _is_ours(entry: DumpEntry) -> bool:
    if entry.kind in _PUBLICATIONS:
        return _STREAM.fullmatch(entry.name.partition(" ")[0]) is not None
    if entry.schema == LEDGER or (entry.kind, entry.name) == ("SCHEMA", LEDGER) or entry.name == f"SCHEMA {LEDGER}":
        return True
    words = entry.name.split()  # of what belongs to another entry, such as its comment, its kind stands before its name
    return not _SCHEMAS.isdisjoint((entry.schema, *words[-1:])) or (
        "EVENT TRIGGER" in (entry.kind, " ".join(words[:2])) and words[-1] in _TRIGGERS
    )


def parse_script(script: str, section: Section) -> Iterator[DumpEntry]:
    """Yield the entries of one section's script."""
    settings: dict[str, str] = {}
    for comments, sql in _pieces(script):
        body, following = _split_settings(sql)
        if comments:
            yield _exactly_named(_entry(comments, section, body.strip(), " ".join(settings.values())))
        # These stand before the comments of the entry that needs them, and last until the next of their name.
        settings.update({found.group(1): found.group() for found in _SETTING.finditer(following)})


def _exactly_named(entry: DumpEntry) -> DumpEntry:
    """Return the entry with the line breaks of its name, for which pg_dump's comments have blanks."""
    if not _BROKEN_NAME.search(entry.sql):
        return entry
    names = {_BREAK.sub(" ", token.identifier): token.identifier for token in tokens(entry.sql) if token.is_identifier}
    routine = [name for name in names if entry.kind in ROUTINES and entry.name.startswith(f"{name}(")]
    name = names[routine[0]] + entry.name.removeprefix(routine[0]) if routine else names.get(entry.name, entry.name)
    return replace(entry, schema=names.get(entry.schema, entry.schema), name=name)


def _split_settings(sql: str) -> tuple[str, str]:
    found = _SETTINGS.search(sql)
    return (sql[: found.start()], found.group()) if found else (sql, "")


def _pieces(script: str) -> Iterator[tuple[list[str], str]]:
    """Yield the comments and the SQL of each entry, first the script's beginning without comments."""
    comments: list[str] = []
    parts: list[str] = []
    for token in tokens(script, coarse=True):
        if token.kind != COMMENT:
            parts.append(token.text)
        elif _begins(token) or _LAST.match(token.text):
            if comments or _begins(token):
                yield comments, "".join(parts)
            comments, parts = [token.text] if _begins(token) else [], []
        elif comments:
            comments.append(token.text)


def _begins(token: Token) -> bool:
    return _ENTRY.match(token.text) is not None


def _entry(comments: Iterable[str], section: Section, sql: str, settings: str) -> DumpEntry:
    first, *more = comments
    begin = _ENTRY.match(first)
    title = next((found for comment in more if (found := _TITLE.fullmatch(comment))), None)
    needs = next((found.group(1) for comment in more if (found := _NEEDS.fullmatch(comment))), "")
    if begin is None or title is None:
        raise DamagedError(f"pg_restore wrote an entry that says not what it is: {first}")
    number, class_oid, oid = (int(each) for each in begin.groups())
    schema = title["schema"]
    return DumpEntry(
        id=number,
        section=section,
        kind=title["kind"],
        class_oid=class_oid,
        oid=oid,
        schema="" if schema == "-" else schema,
        name=title["name"],
        needs=tuple(dict.fromkeys(int(each) for each in needs.split())),
        sql=sql,
        settings=settings,
    )


_OF_ROWS = frozenset({"filenode", "toast", "pages", "size", "estimated_rows"})

_NO_DEFINITIONS = frozenset({"sequences", "large_objects", "large_object_groups", "configuration", "database_settings"})
"""Parts of a catalog's record of rows, or of the database itself: that there is a sequence is in the dump."""


def schema_digest(catalog: Catalog, dump: bytes) -> str:
    """Return a digest that is equal for equal definitions; "" without a suitable pg_restore.

    TRUNCATE alters the server's catalog, and no definition.
    """
    try:
        entries = read_entries(dump, server_version=catalog.server_version)
    except HoldfastError:
        return ""
    definitions = [
        catalog.model_dump(mode="json", exclude={"tables", *_NO_DEFINITIONS}),
        [table.model_dump(mode="json", exclude=set(_OF_ROWS)) for table in catalog.tables],
        [
            (entry.section, entry.class_oid, entry.oid, entry.kind, entry.full_name, entry.sql, entry.settings)
            for entry in entries
        ],
    ]
    return hashlib.sha256(json.dumps(definitions, sort_keys=True).encode()).hexdigest()
