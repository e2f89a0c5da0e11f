"""Amazon S3 and servers that speak its protocol.

Imports `contract`.
"""

from __future__ import annotations
