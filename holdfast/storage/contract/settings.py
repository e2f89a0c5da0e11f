"""What can be set about every store that is behind a network, by environment variables; empty counts as not set."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from holdfast.common.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

LISTING_ORDERED = "HOLDFAST_LISTING_ORDERED"

_YES_NO = {"yes": True, "no": False}


def listing_is_ordered(environment: Mapping[str, str] = os.environ) -> bool | None:
    """Whether listings are said to read names in key order; None leaves it to what is known of the server.

    :raises UsageError: the value is none
    """
    ordered = environment.get(LISTING_ORDERED, "")
    if ordered not in ("", *_YES_NO):
        raise bad_setting(LISTING_ORDERED, ordered, ", ".join(_YES_NO))
    return _YES_NO.get(ordered)


def bad_setting(name: str, value: str, allowed: str) -> UsageError:
    """The error of a variable whose value is none."""
    return UsageError(f"{name} is {value!r}; it may be one of: {allowed}.")
