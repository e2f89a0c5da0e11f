"""Quoting of names and strings for composed SQL."""

from __future__ import annotations

import re

_LISTS = frozenset(
    {
        "local_preload_libraries",
        "search_path",
        "session_preload_libraries",
        "shared_preload_libraries",
        "temp_tablespaces",
        "unix_socket_directories",
    }
)
"""Settings whose values are lists of identifiers. Source: variable_is_guc_list_quote() of pg_dump."""

_ELEMENT = re.compile(r'"(?P<quoted>(?:[^"]|"")*)"|(?P<bare>[^,\s]+)')


def ident(name: str) -> str:
    """Return `name` as a quoted SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def qualified(schema: str, name: str) -> str:
    """Return `schema.name` with both parts quoted."""
    return f"{ident(schema)}.{ident(name)}"


def literal(text: str) -> str:
    """Return `text` as a string literal, independent of standard_conforming_strings."""
    quoted = "'" + text.replace("'", "''") + "'"
    return "E" + quoted.replace("\\", "\\\\") if "\\" in text else quoted


def assignment(setting: str) -> str:
    """Return what comes behind SET for a setting, as the catalog has it.

    :param setting: `name=value`.
    """
    name, _, value = setting.partition("=")
    quoted = ".".join(ident(part) for part in name.split("."))
    values = [value]
    if name.lower() in _LISTS and value:
        found = _ELEMENT.finditer(value)
        values = [each["bare"] or each["quoted"].replace('""', '"') for each in found]
    return f"{quoted} TO {', '.join(literal(value) for value in values)}"
