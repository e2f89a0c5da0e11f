"""Incremental backups of a stream of changes, and restores to a point in time."""

from __future__ import annotations
