"""Restoring into a database: `plan`, then `rights`, `objects` and `rows`.

Imports `connection`, `catalog`, `values`, `snapshot` and `dump`.
"""

from __future__ import annotations
