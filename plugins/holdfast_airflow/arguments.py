"""Lengths of time in operators' arguments."""

from __future__ import annotations

from datetime import timedelta

from holdfast.common.units import parse_span


def span(given: timedelta | str) -> timedelta:
    """Return a length of time, given as such or in words such as `90 min`.

    :raises UsageError: the words say none.
    """
    return parse_span(given) if isinstance(given, str) else given
