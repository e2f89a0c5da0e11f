"""Restoring into a database: `plan`, then `rights`, `objects` and `rows`.

Imports all other packages of a source but `setup`.
"""

from __future__ import annotations
