"""The driver of every application: locks, progress, outcome, and the steps of backups and restores.

Imports `tasks`, `executors` and `holdfast`.
"""

from __future__ import annotations
