"""The request for a drill."""

from __future__ import annotations

from typing import Annotated, ClassVar

from holdfast.operations.requests.base import NO_LOCK, Option, Request, Span


class DrillRequest(Request):
    """A trial restore of a source, with assertions on the restored database."""

    operation: ClassVar[str] = "drill"

    source: Annotated[str | None, Option("The source; needed where the archive has several.")] = None
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
        Span | None,
        Option(
            "Fail if the newest restore point is older than that (1h); default is the setting in archives.yaml.",
            metavar="SPAN",
        ),
    ] = None
    trust_source: Annotated[
        bool, Option("With --to: let code of the source run there with a superuser's rights.", operator="")
    ] = False
    keep_server: Annotated[bool, Option("Keep that server running, to examine it.", operator="")] = False
    key: Annotated[
        str | None,
        Option(
            "Open the archive with the copy of its key at this address, and record that it works; default is the "
            "setting in archives.yaml.",
            metavar="ADDRESS",
        ),
    ] = None
    no_lock: Annotated[bool, NO_LOCK] = False
