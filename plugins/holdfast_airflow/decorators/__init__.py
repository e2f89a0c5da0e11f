"""Task decorators: `@task.locked(...)`, which `locked` is, too, for who imports it.

Imports `acquisition`.
"""

from __future__ import annotations

from holdfast_airflow.decorators.locked import locked

__all__ = ["locked"]
