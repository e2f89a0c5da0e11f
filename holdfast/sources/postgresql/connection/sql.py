"""Quoting for SQL that is composed from catalog names."""

from __future__ import annotations


def ident(name: str) -> str:
    """Return `name` as a quoted SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def qualified(schema: str, name: str) -> str:
    """Return `schema.name` with both parts quoted."""
    return f"{ident(schema)}.{ident(name)}"


def literal(text: str) -> str:
    """Return `text` as a string literal that means the same whatever standard_conforming_strings says."""
    quoted = "'" + text.replace("'", "''") + "'"
    return "E" + quoted.replace("\\", "\\\\") if "\\" in text else quoted
