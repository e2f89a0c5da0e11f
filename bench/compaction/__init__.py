"""Compaction and consolidation of an archive that no database was read for."""

from __future__ import annotations
