"""Holdfast as a plugins folder: registers the plugin only where the distribution is not installed.

Installed, the entry point `airflow.plugins` registers it already, and a second plugin of the same name
would stand as an error in Airflow's list. This is the only file here that Airflow's plugin loader may
execute; see .airflowignore.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, distribution


def _is_registered_by_distribution() -> bool:
    try:
        entry_points = distribution("holdfast").entry_points
    except PackageNotFoundError:
        return False
    return any(point.group == "airflow.plugins" for point in entry_points)


if not _is_registered_by_distribution():
    # The loader registers every plugin class it finds among this module's names.
    from holdfast_airflow.plugin import HoldfastPlugin as HoldfastPlugin
