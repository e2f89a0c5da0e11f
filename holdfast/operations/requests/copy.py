"""The request for a copy of an archive."""

from __future__ import annotations

from typing import Annotated, ClassVar

from holdfast.operations.requests.base import Option, Request


class CopyRequest(Request):
    """A copy of an archive, new or brought up to date."""

    operation: ClassVar[str] = "copy"

    to_key: Annotated[
        str | None,
        Option(
            "The address of the copy's key, such as file:/etc/copy.key, to encrypt the copy. Default is the copy's key "
            "in archives.yaml, else the archive's own.",
            metavar="KEY",
        ),
    ] = None
    deep: Annotated[bool, Option("Also read the files that are there, and replace damaged ones.")] = False
    before_damage: Annotated[
        bool,
        Option("Leave out a commit that is damaged or missing, and all after it: such a copy can take new backups."),
    ] = False
    dry_run: Annotated[bool, Option("Show the plan, and change nothing.")] = False
