"""The Airflow plugin of the installed distribution; found through the entry point `airflow.plugins`."""

from __future__ import annotations

from airflow.plugins_manager import AirflowPlugin


class HoldfastPlugin(AirflowPlugin):
    """Shows in Airflow's list of plugins that Holdfast is there; pages and links are registered here."""

    name = "holdfast"
