"""Words: values as people, templates or forms write them, and amounts and names for sentences."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import timedelta

from holdfast.common.errors import UsageError

_YES = frozenset({"true", "1", "yes"})


def is_yes(answer: bool | str) -> bool:
    """Return whether a value, or its text from a template, means yes."""
    return str(answer).lower() in _YES


def listed(given: Sequence[str] | str | None, argument: str) -> list[str]:
    """Return a list of words; a string is one word, or a list that a template has rendered.

    :param argument: its name, for errors.
    :raises UsageError: it has something else than words.
    """
    words = _of_template(given) if isinstance(given, str) else given
    if not words:
        return []
    if isinstance(words, str):
        return [words]
    if not isinstance(words, Sequence):
        raise UsageError(f"{argument} is {given!r}: write a list of strings, or one string")
    others = [word for word in words if not isinstance(word, str) or not word]
    if others:
        raise UsageError(f"{argument} has {others[0]!r} in it: write strings only")
    return list(words)


def _of_template(text: str) -> object:
    if text.startswith("[") and text.endswith("]"):
        with suppress(ValueError, SyntaxError):  # such as the pattern `[ab]`
            return ast.literal_eval(text)
    return "" if text in ("None", "()") else text


def number(given: int | str | None, argument: str) -> int | None:
    """Return a number, if one is given; `argument` is its name for errors (UsageError)."""
    if given is None or given in ("", "None"):
        return None
    try:
        return int(given)
    except ValueError as error:
        raise UsageError(f"{argument} is {given!r}: write a whole number") from error


def counted(number: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun: `1 table`, `2,000 tables`.

    :param plural: where it is not the noun with an s.
    """
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def human_size(size: int) -> str:
    """Return a size in bytes for people, in decimal units."""
    value = float(size)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"


def human_span(span: timedelta | float) -> str:
    """Return a length of time for people, such as `90 s`, `5 min`, `3 h` or `2 d`; a number is in seconds."""
    seconds = max(span.total_seconds() if isinstance(span, timedelta) else span, 0.0)
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def named(names: Sequence[str], limit: int = 20, between: str = ", ") -> str:
    """Return the first names for a sentence, and the number of others."""
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return between.join(names[:limit]) + more


def nearest(name: str, names: Iterable[str]) -> str:
    """Return a question after the nearest known name, or ""."""
    near = difflib.get_close_matches(name, list(names), n=1, cutoff=0.5)
    return f"; did you mean '{near[0]}'?" if near else ""
