"""Lift an archive to a newer format."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from holdfast.common.errors import UsageError
from holdfast_airflow.operators.job import ArchiveJobOperator

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from holdfast.config.archives_model import ArchiveConfig
    from holdfast.storage import ObjectStore

NEWEST_FORMAT = 2
"""The newest one. The archive's own module says it, too, but takes a second to import, at every parse of a DAG."""


class MigrateOperator(ArchiveJobOperator):
    """Lift an archive to a newer format, by one commit for each step; its restore points stay what they are.

    It waits until nobody works with the archive, and keeps all others out meanwhile. Releases that do not know the
    format refuse the archive from then on. Returns `archive`, `from`, `format` and `commits`.

    :param to: the format to lift it to. (templated)
    """

    operation: ClassVar[str] = "migration"
    template_fields: Sequence[str] = (*ArchiveJobOperator.template_fields, "to")

    def __init__(self, *, to: int | str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.to = to

    def arguments(self, archive: ArchiveConfig, source: str | None) -> Sequence[str]:
        """Return the format.

        :raises UsageError: it is no number.
        """
        if not str(self.to).isdecimal():
            raise UsageError(f"cannot read {self.to!r} as a format: write its number, such as 2")
        return ["--to", str(self.to)]

    def summarise(self, store: ObjectStore, run: str, result: Mapping[str, Any]) -> dict[str, Any]:
        """Return from which format it was lifted to which."""
        return {key: result.get(key) for key in ("archive", "from", "format", "commits")}
