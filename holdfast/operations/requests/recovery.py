"""The request for a recovery of replicas."""

from __future__ import annotations

from typing import Annotated, ClassVar

from holdfast.operations.requests.base import Option, Request


class RecoveryRequest(Request):
    """A recovery of lost replicas from others."""

    operation: ClassVar[str] = "recovery"

    source: Annotated[
        str | None,
        Option("Copy from this one. Default is the one that is furthest.", metavar="NAME", flag="--from", operator=""),
    ] = None
    deep: Annotated[
        bool,
        Option(
            "Read the files that are there, too, and replace those that are not what was written.", is_in_command=False
        ),
    ] = True
    damaged: Annotated[bool, Option("It is not lost, but files at its place are gone or rotten.", operator="")] = False
