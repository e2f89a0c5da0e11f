"""The request for a vacuum."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, ClassVar

from holdfast.common.units import parse_span
from holdfast.operations.requests.base import Option, Request, Span


class VacuumRequest(Request):
    """A vacuum of an archive."""

    operation: ClassVar[str] = "vacuum"

    grace: Annotated[
        Span | None,
        Option(
            "The time that files stay after they were removed: 24h, 90 min, 7d; a restore without locks relies on it. "
            "Default is the setting in archives.yaml.",
            metavar="SPAN",
            schema=(("pattern", r"^[0-9]+(\.[0-9]+)? ?(s|min|h|d|w)$"),),
        ),
    ] = None
    orphans: Annotated[
        bool, Option("Also look for files of killed backups, which lists all data.", title="Orphan files")
    ] = True
    dry_run: Annotated[
        bool, Option("Show the files that would be deleted, and change nothing.", title="Dry run", operator="only_plan")
    ] = False

    @property
    def span(self) -> timedelta:
        return parse_span(self.grace or "24h")
