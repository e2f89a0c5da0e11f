"""The request for a migration of an archive's format."""

from __future__ import annotations

from typing import Annotated, ClassVar

from holdfast.operations.requests.base import Option, Request


class MigrationRequest(Request):
    """A migration of an archive to a newer format."""

    operation: ClassVar[str] = "migration"

    to: Annotated[int, Option("The number of the format.", metavar="FORMAT", least=1)]
