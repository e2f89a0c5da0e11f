"""Holdfast: back up SQL databases into shared archives and restore them to any point in time.

Imports `locking`.
"""

from __future__ import annotations

__version__ = "0.1.0"
