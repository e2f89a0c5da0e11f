"""The Airflow plugin of the installed distribution; found through the entry point `airflow.plugins`."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from airflow.configuration import conf
from airflow.plugins_manager import AirflowPlugin

from holdfast_airflow.page.lazy import LazyApplication

PREFIX = "/holdfast"
"""Where the API server mounts the page, below its own address."""


def _page(query: str = "") -> str:
    """Return the page's address as a browser needs it: behind a proxy, Airflow may have a path of its own."""
    path = urlsplit(conf.get("api", "base_url", fallback="/")).path.rstrip("/")
    return f"{path}{PREFIX}/{query}"


class HoldfastPlugin(AirflowPlugin):
    """Entry of Holdfast in Airflow's list of plugins: the page, in the navigation and as a tab of each DAG."""

    name = "holdfast"
    fastapi_apps: list[Any] = [{"name": "Holdfast", "app": LazyApplication(), "url_prefix": PREFIX}]  # noqa: RUF012
    external_views: list[Any] = [  # noqa: RUF012 - as Airflow wants it
        {"name": "Holdfast", "href": _page(), "destination": "nav", "category": "browse", "url_route": "holdfast"},
        {"name": "Holdfast", "href": _page("?dag={DAG_ID}"), "destination": "dag", "url_route": "holdfast-archive"},
    ]
