"""Environment variables of all stores behind a network; an empty one counts as not set."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from holdfast.common.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

LISTING_ORDERED = "HOLDFAST_LISTING_ORDERED"

_YES_NO = {"yes": True, "no": False}


def listing_is_ordered(environment: Mapping[str, str] = os.environ) -> bool | None:
    """Return whether listings are said to read names in key order; None: known by the server."""
    ordered = environment.get(LISTING_ORDERED, "")
    if ordered not in ("", *_YES_NO):
        raise bad_setting(LISTING_ORDERED, ordered, ", ".join(_YES_NO))
    return _YES_NO.get(ordered)


def check_line_breaks(prefix: str, environment: Mapping[str, str] = os.environ) -> None:
    """Check that no variable has a line break or begins or ends with a space, as one from a file may.

    Servers and SDKs then refuse requests, and name no variable.

    :param prefix: of the variables' names.
    """
    for name in sorted(environment):
        value = environment[name]
        if name.startswith(prefix) and (value != value.strip() or "\n" in value):
            raise UsageError(f'{name} has a space or a line break too many: set it again, as by {name}="$(cat FILE)".')


def bad_setting(name: str, value: str, allowed: str) -> UsageError:
    """Return the error for a variable with an invalid value."""
    return UsageError(f"{name} is {value!r}; it may be one of: {allowed}.")
