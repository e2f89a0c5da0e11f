"""Versions of the coordination store's tables, applied by Alembic.

Imports `log`.
"""

from __future__ import annotations
