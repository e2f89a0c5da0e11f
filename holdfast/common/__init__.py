"""Helpers for every package: errors with exit codes, positions in the log, field ids, free ports, cleanup.

Imports nothing else of this project.
"""

from __future__ import annotations
