"""Azure Blob Storage.

Imports `contract`.
"""

from __future__ import annotations
