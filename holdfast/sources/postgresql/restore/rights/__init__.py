"""Rights during a restore: roles, log-ins with fewer rights, code of the source.

Imports `plan`.
"""

from __future__ import annotations
