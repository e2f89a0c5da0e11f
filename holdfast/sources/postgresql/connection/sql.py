"""Quoting of names and strings for composed SQL."""

from __future__ import annotations


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
