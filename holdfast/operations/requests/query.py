"""The request for a query."""

from __future__ import annotations

from typing import Annotated, ClassVar

from holdfast.common.choices import Schema  # noqa: TC001 - pydantic reads it at run time
from holdfast.operations.requests.base import NO_LOCK, SCHEMA, Option, Request, Size


class QueryRequest(Request):
    """A query of a source's tables at a recovery target."""

    operation: ClassVar[str] = "query"

    at: Annotated[
        str, Option("latest, commit:N, lsn:X/Y, the name of a mark, or a time (2026-03-01T12:00:00Z, -10min).")
    ] = "latest"
    source: Annotated[str | None, Option("The source; needed where the archive has several.")] = None
    schema_choice: Annotated[Schema, SCHEMA] = "auto"
    limit: Annotated[int, Option("The most rows to show.", metavar="N", least=1)] = 1000
    memory: Annotated[Size, Option("The most memory to use; the rest goes to disk.", metavar="SIZE")] = "1 GB"
    no_lock: Annotated[bool, NO_LOCK] = False
