"""Sensor that waits until a source's files were verified lately."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast_airflow.exceptions import in_airflow_terms
from holdfast_airflow.hooks.archive import HoldfastHook
from holdfast_airflow.sensors.deferrable import DeferrableSensor

if TYPE_CHECKING:
    from airflow.sdk import Context


class VerifiedSensor(DeferrableSensor):
    """Sensor that waits until a source's files are verified.

    Each was read and compared, or written, within a length of time.

    A damaged file keeps it waiting until the file is repaired and verified.

    :param archive: a name in archives.yaml, a URL, or the id of a connection of type `holdfast`. (templated)
    :param within: the length of time, such as `30d`. (templated)
    :param source: the source in the archive; not needed where there is only one. (templated)
    """

    template_fields = ("archive", "within", "source")

    def __init__(self, *, archive: str, within: str, source: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.archive = archive
        self.within = within
        self.source = source

    def poke(self, context: Context) -> bool:
        from holdfast.archive.history.restore_points import only_source
        from holdfast.objectives import judge_verification

        with in_airflow_terms():
            archive = HoldfastHook(self.archive).get_conn()
            standing = judge_verification(archive, only_source(archive.state, self.source or None), self.within)
        self.log.info("%s", standing)
        return standing.is_met
