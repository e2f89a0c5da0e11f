"""Objects created by a restore: before the rows, and when they are there.

Imports `plan` and `rights`.
"""

from __future__ import annotations
