"""Schedules for Airflow: cron expressions of five fields, or presets such as `@daily`. Source: crontab(5)."""

from __future__ import annotations

import re

PRESETS = frozenset({"@once", "@continuous", "@hourly", "@daily", "@weekly", "@monthly", "@quarterly", "@yearly"})

_FIELDS = (
    ("minute", 0, 59, ""),
    ("hour", 0, 23, ""),
    ("day of the month", 1, 31, ""),
    ("month", 1, 12, "jan feb mar apr may jun jul aug sep oct nov dec"),
    ("day of the week", 0, 7, "sun mon tue wed thu fri sat"),
)
"""Name, least and greatest value of each, and names of values."""

_PART = re.compile(r"(?:\*|(\w+)(?:-(\w+))?)(?:/([1-9]\d*))?")

_SPECIAL = re.compile(r"l|\d+w|l?\d*#[1-5]|\d+l|\?", re.IGNORECASE)
"""Forms that only some cron implementations know, Airflow's among them."""


def schedule_problem(text: str) -> str:
    """Return the problem of a schedule, or "" for none."""
    if text.startswith("@"):
        return "" if text in PRESETS else f"there is no preset {text}; there are {', '.join(sorted(PRESETS))}"
    fields = text.split()
    if len(fields) != len(_FIELDS):
        return "write five fields, minute, hour, day, month and day of the week, such as '0 2 * * *', or '@daily'"
    for field, (what, least, most, names) in zip(fields, _FIELDS, strict=True):
        if not all(_is_part(part, least, most, names.split()) for part in field.split(",")):
            return f"{field!r} is no {what}: write *, {least} to {most}, a range, a list or a step"
    return ""


def _is_part(part: str, least: int, most: int, names: list[str]) -> bool:
    if _SPECIAL.fullmatch(part):
        return True
    match = _PART.fullmatch(part)
    if match is None:
        return False
    ends = [end for end in match.groups()[:2] if end is not None]
    return all(end.lower() in names or (end.isdecimal() and least <= int(end) <= most) for end in ends)
