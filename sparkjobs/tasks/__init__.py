"""The work of tasks: what executors run beside each other.

Imports `holdfast` alone.
"""

from __future__ import annotations
