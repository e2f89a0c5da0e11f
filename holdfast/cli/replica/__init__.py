"""The commands `holdfast replica …`, a module for each group of them.

Imports `cli.shared` and everything below the command.
"""

from __future__ import annotations
