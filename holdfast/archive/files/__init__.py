"""Data files of blocks: Parquet, packs, an index by path, transfer between stores.

Imports `format`.
"""

from __future__ import annotations
