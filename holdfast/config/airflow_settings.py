"""Settings of an archive's tasks in Airflow."""

from __future__ import annotations

from typing import Annotated
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from pydantic import AfterValidator, StringConstraints
from pydantic_core import PydanticCustomError

from holdfast.common.words import nearest
from holdfast.config.section import Section, Span

LABEL = r"^[^\s,]([^,\x00-\x1f]*[^\s,])?$"
"""A name in Airflow: it joins the owners of a DAG with commas."""

Label = Annotated[str, StringConstraints(pattern=LABEL, max_length=250)]
"""Name of an owner, a pool or a queue; Airflow's columns hold so much."""


def _time_zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        if zones := available_timezones():  # a machine without any cannot check
            hint = nearest(name, zones) or ": write one such as Europe/Berlin"
            raise PydanticCustomError("timezone", "there is no such time zone{hint}", {"hint": hint}) from None
    return name


TimeZone = Annotated[str, AfterValidator(_time_zone)]
"""Name of a time zone of the IANA database."""


class AirflowDeadlines(Section):
    """Deadlines of runs in Airflow, such as `2h`: so long after it was queued, a run of the operation is done.

    Where one is not, Airflow marks its deadline as missed, and the archive's `alerts` report it. The run goes on.
    """

    full: Span | None = None
    changes: Span | None = None
    compaction: Span | None = None
    truncation: Span | None = None
    vacuum: Span | None = None
    verification: Span | None = None
    drill: Span | None = None
