"""Work on the archives that follow an update log: replicas, membership, recovery, quorum waits.

Imports `log` and `archive`.
"""

from __future__ import annotations
