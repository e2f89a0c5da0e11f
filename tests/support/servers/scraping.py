"""Requests to a server of metrics, as Prometheus makes them."""

from __future__ import annotations

import http.client
from urllib.parse import urlsplit


def scrape(url: str, path: str = "/metrics", method: str = "GET") -> tuple[int, str, str]:
    """Return status, type and text of an answer.

    :param url: of the server; its path does not count.
    """
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=30)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, answer.headers["Content-Type"], answer.read().decode()
    finally:
        connection.close()
