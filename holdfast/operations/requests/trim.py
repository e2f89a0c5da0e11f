"""The request for a trimming of an update log."""

from __future__ import annotations

from typing import Annotated, ClassVar

from holdfast.operations.requests.base import Option, Request
from holdfast.replication.log.settings import MAX_KEEP, MIN_KEEP


class TrimRequest(Request):
    """A trimming of the log that an archive's replicas follow."""

    operation: ClassVar[str] = "trim"

    min_keep: Annotated[
        int, Option("The number of newest entries that always stay.", metavar="N", least=0, title="Kept in any case")
    ] = MIN_KEEP
    max_keep: Annotated[
        int,
        Option(
            "The most entries kept for a replica that is away; then it becomes lost.",
            metavar="N",
            least=0,
            title="Kept for a replica that is away",
        ),
    ] = MAX_KEEP
    dry_run: Annotated[bool, Option("Show the plan, and change nothing.", operator="", is_in_form=False)] = False
