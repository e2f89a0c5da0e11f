"""The request for a truncation."""

from __future__ import annotations

from typing import Annotated, ClassVar

from holdfast.operations.requests.base import Option, Request


class TruncationRequest(Request):
    """A truncation of one source's restore points, or of all sources'."""

    operation: ClassVar[str] = "truncation"

    keep: Annotated[
        tuple[str, ...],
        Option(
            "Rules for the restore points that stay: last=2, hourly=48, daily=14, weekly=8, monthly=12, yearly=5, "
            "within=7d; a point stays if any rule keeps it. Default is the rules in archives.yaml.",
            metavar="RULE",
            schema=(
                (
                    "items",
                    {"type": "string", "pattern": "^(last|hourly|daily|weekly|monthly|yearly|within)=[0-9]+[hdwmy]?$"},
                ),
            ),
        ),
    ] = ()
    source: Annotated[
        str | None, Option("Only restore points of this source; default is all.", operator="", is_in_form=False)
    ] = None
    remove_source: Annotated[
        str | None,
        Option(
            "Remove this source instead, with all its backups; a hold on one of them prevents it.",
            metavar="NAME",
            is_in_form=False,
        ),
    ] = None
    min_chains: Annotated[
        int,
        Option(
            "The number of newest full backups that always stay, with the changes after them.",
            metavar="N",
            least=1,
            title="Full backups",
        ),
    ] = 1
    dry_run: Annotated[
        bool,
        Option(
            "Show which restore points would stay, and why, and which would be removed; change nothing.",
            title="Dry run",
            operator="only_plan",
        ),
    ] = False
