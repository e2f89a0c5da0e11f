"""Sensor that waits until a source can be restored to a time."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from airflow.sdk import PokeReturnValue

from holdfast.common.errors import RefusedError, UsageError
from holdfast_airflow.exceptions import in_airflow_terms
from holdfast_airflow.hooks.archive import HoldfastHook
from holdfast_airflow.sensors.deferrable import DeferrableSensor

if TYPE_CHECKING:
    from airflow.sdk import Context


class RestorableSensor(DeferrableSensor):
    """Sensor that waits until a source can be restored to a time.

    It fails where the time lies in a gap, since no later backup closes one behind it. Returns `restorable_to`, the
    newest moment, and `commit`, its backup.

    :param archive: a name in archives.yaml, a URL, or the id of a connection of type `holdfast`. (templated)
    :param until: the time, in ISO 8601 with its zone, such as `{{ data_interval_end }}`. (templated)
    :param source: the source in the archive; not needed where there is only one. (templated)
    """

    template_fields = ("archive", "until", "source")

    def __init__(self, *, archive: str, until: str | datetime, source: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.archive = archive
        self.until = until
        self.source = source

    def poke(self, context: Context) -> PokeReturnValue:
        from holdfast.archive.format.document import iso
        from holdfast.archive.history.coverage import covered_ranges
        from holdfast.archive.history.restore_points import only_source, source_names

        with in_airflow_terms():
            until = _time(self.until)
            state = HoldfastHook(self.archive).get_conn().state
            if not source_names(state):
                return PokeReturnValue(is_done=False)
            source = only_source(state, self.source or None)
            ranges = covered_ranges(state, source)
            newest = ranges[-1]
            if until > newest.end:
                self.log.info("%s can be restored to %s; waiting for %s", source, iso(newest.end), iso(until))
                return PokeReturnValue(is_done=False)
            if not any(covered.start <= until <= covered.end for covered in ranges):
                raise RefusedError(
                    f"{source} cannot be restored to {iso(until)}: it lies in a gap, or before all backups"
                )
            value = {"restorable_to": iso(newest.end), "commit": newest.placed.number}
            return PokeReturnValue(is_done=True, xcom_value=value)


def _time(given: str | datetime) -> datetime:
    try:
        time = given if isinstance(given, datetime) else datetime.fromisoformat(given)
    except ValueError as error:
        raise UsageError(f"until is {given!r}: write a time in ISO 8601, such as 2026-03-01T12:00:00Z") from error
    if time.tzinfo is None:
        raise UsageError(f"until is {given!r}: it names no time zone, such as Z for UTC")
    return time
