"""Addresses of the page."""

from __future__ import annotations

from urllib.parse import urlencode, urlsplit

from airflow.configuration import conf

PREFIX = "/holdfast"
"""Where the API server mounts the page, below its own address."""


def page_address(**query: str) -> str:
    """Return the page's address as a browser needs it, behind Airflow's own path.

    :param query: such as `archive`, and `run` of a job in it. Braces stay as they are: Airflow fills them in.
    """
    path = urlsplit(conf.get("api", "base_url", fallback="/")).path.rstrip("/")
    asked = f"?{urlencode(query, safe='{}')}" if query else ""
    return f"{path}{PREFIX}/{asked}"
