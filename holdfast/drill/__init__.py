"""Restore drills: bring a random moment back, from nothing but the archive, and see that it is right."""

from __future__ import annotations

from holdfast.drill.drill import Drill, Restore, new_run
from holdfast.drill.history import drills_of

__all__ = ["Drill", "Restore", "drills_of", "new_run"]
