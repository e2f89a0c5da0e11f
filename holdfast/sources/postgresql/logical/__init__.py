"""Change data capture by logical decoding: slot, publication, pgoutput, rows of change files.

Imports all packages above but `restore` and `setup`.
"""

from __future__ import annotations
