"""Values between PostgreSQL, Arrow and Parquet: type mapping, encoding, hashes, schema evolution.

Imports `connection` and `catalog`.
"""

from __future__ import annotations
