"""The request for a vacuum."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, ClassVar

from pydantic import field_validator

from holdfast.common.units import parse_span
from holdfast.operations.requests.base import Option, Request


class VacuumRequest(Request):
    """A vacuum of an archive."""

    operation: ClassVar[str] = "vacuum"

    grace: Annotated[
        str | None,
        Option(
            "The time that files stay after they were removed: 24h, 90 min, 7d; a restore without locks relies on it. "
            "Else: as archives.yaml says.",
            metavar="SPAN",
            schema=(("pattern", r"^[0-9]+(\.[0-9]+)? ?(s|min|h|d|w)$"),),
        ),
    ] = None
    orphans: Annotated[
        bool,
        Option(
            "Also look for files that killed backups have left, which lists all data.",
            title="Orphan files",
        ),
    ] = True
    dry_run: Annotated[
        bool, Option("Say which files would go, and change nothing.", title="Dry run", operator="only_plan")
    ] = False

    @field_validator("grace")
    @classmethod
    def _readable(cls, given: str | None) -> str | None:
        if given is not None:
            parse_span(given)
        return given

    @property
    def span(self) -> timedelta:
        """Return the grace."""
        return parse_span(self.grace or "24h")
