"""Rows of a table at a position: merge-on-read of a snapshot and the changes since, in bounded memory.

Imports `format` and `files`.
"""

from __future__ import annotations
