"""Encryption on the client: a store behind a store, its keys and where they come from.

Imports `contract` and `url`.
"""

from __future__ import annotations
