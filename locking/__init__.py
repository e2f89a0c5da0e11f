"""Put-and-verify locks on any object store."""

from __future__ import annotations
