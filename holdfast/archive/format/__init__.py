"""The documents on the store: commits, checkpoints, the state they make, records of runs.

Imports `storage` and `common`.
"""

from __future__ import annotations
