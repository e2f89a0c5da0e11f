"""Archives: the format on the store, its history and rows, the locks of operations, maintenance.

Imports `storage`, `common` and `locking`.
"""

from __future__ import annotations

from holdfast.archive.archive import Archive
from holdfast.archive.format.state import Change, State

__all__ = ["Archive", "Change", "State"]
