"""The request for a drill."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import field_validator

from holdfast.common.units import parse_span
from holdfast.operations.requests.base import NO_LOCK, Option, Request


class DrillRequest(Request):
    """A trial restore of a source, with what must hold in the restored database."""

    operation: ClassVar[str] = "drill"

    source: Annotated[str | None, Option("Whose backup; needed where the archive holds several sources.")] = None
    at: Annotated[str | None, Option("The recovery target, as for a restore; default is a random restore point.")] = (
        None
    )
    seed: Annotated[int | None, Option("Choose the same random restore point again.", metavar="N", operator="")] = None
    assertions: Annotated[
        tuple[str, ...],
        Option(
            "A query that must return one row with the value true, beside those of archives.yaml.",
            metavar="SQL",
            flag="--assert",
        ),
    ] = ()
    newest_within: Annotated[
        str | None,
        Option(
            "Fail where the newest restore point is older than that (1h); default is archives.yaml's.", metavar="SPAN"
        ),
    ] = None
    trust_source: Annotated[
        bool,
        Option("With --to: let code of the source run with a superuser's rights there.", operator=""),
    ] = False
    keep_server: Annotated[bool, Option("Let that server run on, to look at it.", operator="")] = False
    key: Annotated[
        str | None,
        Option(
            "Open the archive by the copy of its key at this address, and record that it is right; default is "
            "archives.yaml's.",
            metavar="ADDRESS",
        ),
    ] = None
    no_lock: Annotated[bool, NO_LOCK] = False

    @field_validator("newest_within")
    @classmethod
    def _readable(cls, given: str | None) -> str | None:
        if given is not None:
            parse_span(given)
        return given
