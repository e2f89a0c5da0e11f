"""Replicas of an archive: one update log in a coordination store, which each of them follows entry by entry.

Imports `archive`. The rules are those of `docs/replication.md`, and are checked as models in `specs/`.
"""

from __future__ import annotations
