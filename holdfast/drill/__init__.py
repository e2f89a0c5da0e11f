"""Restore drills: a random time restored from the archive alone, and checked.

Imports everything in `holdfast` but `cli`.
"""

from __future__ import annotations

from holdfast.drill.drill import Drill, Restore, new_run
from holdfast.drill.history import drills_of

__all__ = ["Drill", "Restore", "drills_of", "new_run"]
