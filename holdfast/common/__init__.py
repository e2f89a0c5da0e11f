"""Helpers that every package may use: errors with exit codes, positions in the log, field ids, free ports, tidying up.

Imports nothing else of this project.
"""

from __future__ import annotations
