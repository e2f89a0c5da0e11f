"""The request for a recovery of replicas."""

from __future__ import annotations

from typing import Annotated, ClassVar

from holdfast.operations.requests.base import Option, Request


class RecoveryRequest(Request):
    """A recovery of lost replicas from others."""

    operation: ClassVar[str] = "recovery"

    source: Annotated[
        str | None,
        Option(
            "The replica to copy from; default is the most advanced one.", metavar="NAME", flag="--from", operator=""
        ),
    ] = None
    deep: Annotated[
        bool, Option("Also read the files that are there, and replace those that differ.", is_in_command=False)
    ] = True
    damaged: Annotated[
        bool, Option("The replica is not lost, but some of its files are missing or damaged.", operator="")
    ] = False
