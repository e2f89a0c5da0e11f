"""Dates and times that no Parquet type holds: their PostgreSQL text, and the integer behind it.

PostgreSQL keeps a date as days and a timestamp as microseconds since 2000-01-01, in the proleptic
Gregorian calendar, with the ends of the integer range for -infinity and infinity. Python's and
Arrow's calendars end at the years 1 and 9999; here are plain integers, for the few values beyond.
The calendar arithmetic is Howard Hinnant's (https://howardhinnant.github.io/date_algorithms.html).
"""

from __future__ import annotations

import re
from typing import Final

from holdfast.common.errors import DamagedError

EPOCH_DAYS: Final = 10_957
"""Days from 1970-01-01 to PostgreSQL's epoch, 2000-01-01."""
DAY_US: Final = 86_400_000_000
EPOCH_US: Final = EPOCH_DAYS * DAY_US

_DATE_INFINITY: Final = {"infinity": 2**31 - 1, "-infinity": -(2**31)}
_TIMESTAMP_INFINITY: Final = {"infinity": 2**63 - 1, "-infinity": -(2**63)}
_DATE_WORDS: Final = {value: word for word, value in _DATE_INFINITY.items()}
_TIMESTAMP_WORDS: Final = {value: word for word, value in _TIMESTAMP_INFINITY.items()}
_MOMENT: Final = re.compile(
    r"(\d{4,})-(\d\d)-(\d\d)(?: (\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?)?(?:\+00)?( BC)?", re.ASCII
)


def date_text(days: int) -> str:
    """Return the text of a date given as days since 2000-01-01 (DateStyle ISO)."""
    if days in _DATE_WORDS:
        return _DATE_WORDS[days]
    day, era = _civil(days)
    return day + era


def date_number(text: str) -> int:
    """Return the days since 2000-01-01 that PostgreSQL stores for `text`."""
    if text in _DATE_INFINITY:
        return _DATE_INFINITY[text]
    return _parse(text) // DAY_US


def timestamp_text(microseconds: int, *, zone: str = "") -> str:
    """Return the text of a timestamp given as microseconds since 2000-01-01.

    :param zone: what follows the time of day: "+00" for timestamptz under TimeZone UTC.
    """
    if microseconds in _TIMESTAMP_WORDS:
        return _TIMESTAMP_WORDS[microseconds]
    days, rest = divmod(microseconds, DAY_US)
    day, era = _civil(days)
    return f"{day} {time_text(rest)}{zone}{era}"


def timestamp_number(text: str) -> int:
    """Return the microseconds since 2000-01-01 that PostgreSQL stores for `text` (UTC)."""
    if text in _TIMESTAMP_INFINITY:
        return _TIMESTAMP_INFINITY[text]
    return _parse(text)


def time_text(microseconds: int) -> str:
    """Return the text of a time of day, 24:00:00 included."""
    seconds, fraction = divmod(microseconds, 1_000_000)
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{text}.{fraction:06}".rstrip("0") if fraction else text


def time_number(text: str) -> int:
    """Return the microseconds since midnight of a time of day."""
    return _parse(f"2000-01-01 {text}")


def _parse(text: str) -> int:
    found = _MOMENT.fullmatch(text)
    if found is None:
        raise DamagedError(f"not a PostgreSQL date or time: {text!r}")
    year, month, day = (int(part) for part in found.group(1, 2, 3))
    hour, minute, second = (int(part or 0) for part in found.group(4, 5, 6))
    fraction = int((found[7] or "").ljust(6, "0"))
    days = _days(1 - year if found[8] else year, month, day)
    return days * DAY_US + ((hour * 60 + minute) * 60 + second) * 1_000_000 + fraction


def _civil(days: int) -> tuple[str, str]:
    """Return the day as YYYY-MM-DD and its era, " BC" or nothing."""
    era, day_of_era = divmod(days + EPOCH_DAYS + 719_468, 146_097)
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * shifted + 2) // 5 + 1
    month = shifted + 3 if shifted < 10 else shifted - 9
    year = year_of_era + era * 400 + (month <= 2)
    shown, suffix = (year, "") if year > 0 else (1 - year, " BC")
    return f"{shown:04}-{month:02}-{day:02}", suffix


def _days(year: int, month: int, day: int) -> int:
    """Return days since 2000-01-01 of a day in the astronomical year `year` (0 is 1 BC)."""
    year -= month <= 2
    era, year_of_era = divmod(year, 400)
    day_of_year = (153 * (month - 3 if month > 2 else month + 9) + 2) // 5 + day - 1
    day_of_era = year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year
    return era * 146_097 + day_of_era - 719_468 - EPOCH_DAYS
