"""The record of a database's objects, as the server's catalog tells them.

Imports `connection`.
"""

from __future__ import annotations
