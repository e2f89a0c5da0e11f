"""Encryption and signatures on the client: a store behind a store, keys and where they come from.

Imports `contract` and `url`.
"""

from __future__ import annotations
