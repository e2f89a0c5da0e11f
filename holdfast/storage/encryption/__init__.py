"""Encryption on the client: a store behind a store, its keys and where they come from.

Imports `contract`.
"""

from __future__ import annotations
