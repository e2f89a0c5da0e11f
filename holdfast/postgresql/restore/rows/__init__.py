"""Rows loaded by a restore, brought to a later position, compared.

Imports `plan`.
"""

from __future__ import annotations
