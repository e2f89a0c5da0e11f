"""The Airflow plugin of the installed distribution; found through the entry point `airflow.plugins`."""

from __future__ import annotations

from airflow.plugins_manager import AirflowPlugin


class HoldfastPlugin(AirflowPlugin):
    """Entry of Holdfast in Airflow's list of plugins.

    Pages and links are to be registered here.
    """

    name = "holdfast"
