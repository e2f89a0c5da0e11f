"""The request for a sync of a replica: its URL says all."""

from __future__ import annotations

from typing import ClassVar

from holdfast.operations.requests.base import Request


class SyncRequest(Request):
    """A sync of a replica up to the head of its update log."""

    operation: ClassVar[str] = "sync"
