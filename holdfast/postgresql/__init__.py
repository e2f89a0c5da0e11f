"""PostgreSQL: snapshots, change data capture and restores, with content hashes that prove them.

Imports `common`.
"""

from __future__ import annotations
