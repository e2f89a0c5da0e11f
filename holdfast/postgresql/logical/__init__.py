"""Change data capture by logical decoding: slot, publication, pgoutput, rows of change files.

Imports `connection`, `catalog`, `values`, `snapshot` and `dump`.
"""

from __future__ import annotations
