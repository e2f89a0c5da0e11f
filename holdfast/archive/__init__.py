"""The on-store format: commits, blocks, restore points, runs, and the locks each operation takes."""

from __future__ import annotations

from holdfast.archive.archive import Archive
from holdfast.archive.format.state import Change, State

__all__ = ["Archive", "Change", "State"]
