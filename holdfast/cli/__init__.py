"""The `holdfast` command; works with Airflow down."""

from __future__ import annotations

from holdfast.cli.app import main

__all__ = ["main"]
