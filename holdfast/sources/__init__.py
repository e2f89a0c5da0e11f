"""Kinds of database that can be backed up, a package each.

Imports `common`; a source knows nothing of archives.
"""

from __future__ import annotations
