"""The plan of a restore and its progress: selection, renaming, order, constraints that give way.

Imports no other package of `restore`.
"""

from __future__ import annotations
