"""Maintenance of an archive: verification, compaction, truncation, vacuum, repair, copies, migration.

Imports every other package of `archive`.
"""

from __future__ import annotations
