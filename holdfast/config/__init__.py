"""The configuration file archives.yaml: its model, its reader, its schedules.

Imports `common` alone.
"""

from __future__ import annotations
