"""Rights during a restore: roles, the login that builds, and the hand-over.

Imports `plan`.
"""

from __future__ import annotations
