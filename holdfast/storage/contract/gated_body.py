"""A request's body that waits before its last byte."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class GatedBody(io.BytesIO):
    """Bytes to send, with a gate that is called before the last one.

    botocore may read a body before, to sign it: only what is read once it is armed is being sent.
    """

    def __init__(self, body: bytes, gate: Callable[[], None]) -> None:
        super().__init__(body)
        self._size = len(body)
        self._gate = gate
        self.armed = False

    def read(self, size: int | None = -1, /) -> bytes:
        remaining = self._size - self.tell()
        if not self.armed or remaining == 0:
            return super().read(size)
        if remaining == 1:
            self._gate()
            return super().read(1)
        return super().read(remaining - 1 if size is None or size < 0 else min(size, remaining - 1))


def skip_expect(params: dict[str, Any], **others: Any) -> None:
    """Handle botocore's event ``before-call``: send at once, without asking first (``Expect: 100-continue``)."""
    del others
    if isinstance(params.get("body"), GatedBody):
        params["headers"].pop("Expect", None)


def arm(request: Any, **others: Any) -> None:
    """Arm the body of a request on botocore's event ``before-send``: what is read then is sent."""
    del others
    if isinstance(request.body, GatedBody):
        request.body.armed = True
