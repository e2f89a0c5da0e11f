"""Point-in-time recovery: what an archive holds of a source at a recovery target, and SQL on it.

Imports `archive` and the record types of `postgresql`; knows nothing of replicas, jobs or the command.
"""

from __future__ import annotations
