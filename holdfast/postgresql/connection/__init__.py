"""Connections to PostgreSQL: addresses, sessions with fixed settings, servers of our own.

Imports `common` alone.
"""

from __future__ import annotations
