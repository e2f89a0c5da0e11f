"""The request for a verification."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from holdfast.common.units import parse_budget, parse_span
from holdfast.operations.requests.base import NO_LOCK, Budget, Option, Request, Span


class VerificationRequest(Request):
    """A verification of an archive, of all files or of some."""

    operation: ClassVar[str] = "verification"

    deep: Annotated[bool, Option("Read every file: checksums, Parquet pages, row counts.")] = False
    budget: Annotated[
        Budget | None,
        Option(
            "With deep: the most to read (100GB, 2h), first the files that were not read for longest; the next run "
            "continues. Default is the setting in archives.yaml.",
            metavar="SIZE|SPAN",
            schema=(("type", ["null", "string"]),),
        ),
    ] = None
    within: Annotated[
        Span | None,
        Option(
            "With deep: read as many files as needed to read all within this time (30d). Default is the setting in "
            "archives.yaml.",
            metavar="SPAN",
            title="All within",
            schema=(("pattern", r"^[0-9]+(\.[0-9]+)? ?(s|min|h|d|w)$"),),
        ),
    ] = None
    new: Annotated[
        bool,
        Option("Without deep: only files that were added since the last verification.", operator="", is_in_form=False),
    ] = False
    no_lock: Annotated[bool, NO_LOCK] = False

    @property
    def bounds(self) -> dict[str, Any]:
        """Return `budget` (bytes or a length of time) and `within`; None for no bound."""
        return {
            "budget": parse_budget(self.budget) if self.budget else None,
            "within": parse_span(self.within) if self.within else None,
        }
