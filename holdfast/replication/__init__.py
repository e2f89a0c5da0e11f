"""Replicas of an archive: one update log in a coordination store, which each of them follows entry by entry.

Imports `archive`. The rules are those of `docs/replication.md`, and are checked as models in `specs/`.

Everywhere: `archive` is an archive's id, `coordination` the store with its update log, `places` opens a replica by its
URL, `wait` and `lease` are seconds, and an address of None is what the environment says.
"""

from __future__ import annotations
