"""Lengths of time in operators' arguments."""

from __future__ import annotations

from datetime import timedelta

from holdfast.common.errors import UsageError
from holdfast.common.units import parse_span

Span = timedelta | str | float
"""A length of time: as such, in words such as `90 min`, or in seconds; a template may give either of the last two."""


def span(given: Span) -> timedelta:
    """Return a length of time.

    :raises UsageError: the words say none, or the seconds are below 0 or too many.
    """
    if isinstance(given, timedelta):
        return given
    try:
        seconds = float(given)
    except ValueError:
        return parse_span(str(given))
    if not 0 <= seconds <= timedelta.max.total_seconds():
        raise UsageError(f"{given} is no number of seconds")
    return timedelta(seconds=seconds)


def check_spans(**given: object) -> None:
    """Refuse arguments that are no lengths of time, when the DAG is parsed; templates pass.

    :param given: the arguments by name; those of other types, such as another task's result, are left alone.
    """
    for name, value in given.items():
        if isinstance(value, int | float) or (isinstance(value, str) and "{{" not in value and "{%" not in value):
            try:
                span(value)
            except UsageError as error:
                raise UsageError(f"{name}: {error}") from None
