"""PostgreSQL: read under one snapshot, load in parallel, prove by content hash."""

from __future__ import annotations
