"""The schema by pg_dump: the programs, the dump's entries, their SQL.

Imports `connection`, `catalog` and `snapshot`.
"""

from __future__ import annotations
