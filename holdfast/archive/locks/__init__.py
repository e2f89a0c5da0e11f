"""Locks of operations: the table that says who excludes whom, taking them, reports, breaking one.

Imports `format` and `locking`.
"""

from __future__ import annotations

from holdfast.archive.locks.operation_locks import AttachedLocks, HeldLocks, HistoryReader, acquire, attach, blockers

__all__ = ["AttachedLocks", "HeldLocks", "HistoryReader", "acquire", "attach", "blockers"]
