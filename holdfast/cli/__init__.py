"""The `holdfast` command, a module for each of its commands; works with Airflow down.

Imports everything else in `holdfast`.
"""

from __future__ import annotations

from holdfast.cli.app import main

__all__ = ["main"]
