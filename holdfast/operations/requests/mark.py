"""The request for a mark."""

from __future__ import annotations

from typing import Annotated, ClassVar

from holdfast.operations.requests.base import Option, Request


class MarkRequest(Request):
    """A name for the present position of a source, as a recovery target."""

    operation: ClassVar[str] = "mark"

    name: Annotated[str, Option("The name, such as `before 4.2`.")]
    source: Annotated[str | None, Option("The source; needed where the archive has several.")] = None
