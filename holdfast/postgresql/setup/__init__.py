"""Setting up a source: readiness, grants, the role for backups (`holdfast source`).

Imports all other packages of a source.
"""

from __future__ import annotations
