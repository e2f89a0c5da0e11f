"""Hooks: archives and databases by Airflow's connections, with forms of their own and a test button.

Imports nothing of `operators` or `decorators`.
"""

from __future__ import annotations

from holdfast_airflow.hooks.archive import HoldfastHook
from holdfast_airflow.hooks.postgres import HoldfastPostgresHook

__all__ = ["HoldfastHook", "HoldfastPostgresHook"]
