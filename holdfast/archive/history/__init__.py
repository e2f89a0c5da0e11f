"""The history of a source: restore points, its schema over time, which snapshots and changes make a position.

Imports `format` and `files`.
"""

from __future__ import annotations
