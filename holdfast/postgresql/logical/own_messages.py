"""Messages that Holdfast writes into a source's log, as they are read there.

Anybody who may log in may write one with any prefix and content. So nothing of one is believed but what cannot do harm,
and what is proved elsewhere.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

MARK_PREFIX: Final = "holdfast"
"""Of the message in a log that carries the name of a mark."""

LONGEST_NAME: Final = 100
"""Characters of a mark's name, at most."""


class MarkMessage(NamedTuple):
    """Message of a mark.

    :param name: of the mark; "" where no mark can be called so.
    :param id: that it says to have been announced by; "" where it says none.
    """

    name: str
    id: str


def said_in(content: bytes) -> Mapping[str, Any]:
    """Return the JSON object that a message is; an empty one for anything else."""
    try:
        said = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}


def mark_in(content: bytes) -> MarkMessage | None:
    """Return the mark that a message sets; None where it sets none."""
    said = said_in(content)
    return MarkMessage(_short(said["mark"]), _short(said.get("id"))) if "mark" in said else None


def _short(value: object) -> str:
    return value if isinstance(value, str) and len(value) <= LONGEST_NAME and value.isprintable() else ""
