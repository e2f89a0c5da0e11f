"""Reading a database in one exported snapshot, once its preconditions hold.

Imports `connection`, `catalog` and `values`.
"""

from __future__ import annotations
