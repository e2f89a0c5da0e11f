"""The largest single value that is backed up, and that readers accept."""

from __future__ import annotations

import os
from typing import Final

from holdfast.common.errors import UsageError

MAX_VALUE_BYTES: Final = 256 << 20
"""The largest single value that is backed up by default."""

MAX_VALUE_VARIABLE: Final = "HOLDFAST_MAX_VALUE_BYTES"


def max_value_bytes() -> int:
    """Return HOLDFAST_MAX_VALUE_BYTES, else the default; raises UsageError for an invalid number."""
    text = os.environ.get(MAX_VALUE_VARIABLE, str(MAX_VALUE_BYTES))
    if not text.isdecimal() or int(text) == 0:
        raise UsageError(f"{MAX_VALUE_VARIABLE} is {text!r}: write a number of bytes, such as {MAX_VALUE_BYTES}")
    return int(text)
