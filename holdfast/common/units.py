"""Amounts as people write them: sizes, bandwidths and lengths of time."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from holdfast.common.errors import UsageError

_NUMBER = r"([1-9][0-9]*(?:\.[0-9]+)?) ?"

BANDWIDTH = rf"^{_NUMBER}([kMG]?)B(?:/s)?$"

SIZE = rf"^{_NUMBER}([kMGT]?)i?B$"

SPAN = r"^([0-9]+(?:\.[0-9]+)?) ?(s|min|h|d|w)$"

SHORT_SPAN = r"^([0-9]+(?:\.[0-9]+)?) ?(s|m|min|h|d|w)$"
"""A span with m for minutes; elsewhere m is for months, as in rules to keep backups."""

AGO = rf"^-{SPAN[1:]}"
"""A time before now."""

BUDGET = f"{SIZE}|{SPAN}"

_SECONDS = {"s": 1, "min": 60, "h": 3600, "d": 86400, "w": 604800}

_LONGEST_S = 1000 * 366 * _SECONDS["d"]
"""Spans are added to and taken from times, whose years have four digits."""

FORMS = {
    SIZE: "write bytes with a unit, such as 10 GiB or 500 MB",
    SPAN: "write a number and s, min, h, d or w, such as 24h or 30d",
    SHORT_SPAN: "write a number and s, min, h, d or w, such as 15min or 24h",
    BUDGET: "write bytes with a unit, such as 100 GB, or a length of time, such as 2h",
    BANDWIDTH: "write bytes a second with a unit, such as 50 MB",
}
"""Remedies by pattern."""


def parse_bandwidth(text: str) -> float:
    """Return the bytes a second of a bandwidth such as `50 MB` or `1.5 GB/s`, in decimal units; UsageError."""
    return _bytes(text, BANDWIDTH, "bandwidth")


def parse_size(text: str) -> int:
    """Return the bytes of a size such as `10 GiB` or `500MB`; units with an i are binary; UsageError."""
    return int(_bytes(text, SIZE, "size"))


def parse_span(text: str) -> timedelta:
    """Parse a length of time such as `24h`, `90 min`, `30d` or `2w`; UsageError."""
    match = re.fullmatch(SPAN, text)
    if match is None:
        raise UsageError(f"cannot read {text!r} as a length of time: {FORMS[SPAN]}")
    seconds = float(match.group(1)) * _SECONDS[match.group(2)]
    if seconds > _LONGEST_S:
        raise UsageError(f"{text!r} is longer than a thousand years: {FORMS[SPAN]}")
    return timedelta(seconds=seconds)


def absolute_time(text: str) -> str:
    """Return the time in ISO 8601 that `-10min` means now; any other text as it is."""
    if re.fullmatch(AGO, text) is None:
        return text
    return (datetime.now(UTC) - parse_span(text[1:])).isoformat()


def parse_budget(text: str) -> int | timedelta:
    """Parse a budget: bytes for `100 GB`, a length of time for `2h`; UsageError."""
    if re.fullmatch(BUDGET, text) is None:
        raise UsageError(f"cannot read {text!r} as a budget: {FORMS[BUDGET]}")
    return parse_span(text) if re.fullmatch(SPAN, text) else parse_size(text)


def _bytes(text: str, pattern: str, what: str) -> float:
    match = re.fullmatch(pattern, text)
    if match is None:
        raise UsageError(f"cannot read {text!r} as a {what}: {FORMS[pattern]}")
    number, unit = match.groups()
    return float(number) * (1024.0 if "i" in text else 1000.0) ** ("", "k", "M", "G", "T").index(unit)
