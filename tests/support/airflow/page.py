"""The Holdfast page in Airflow, asked without a server, and an auth manager that says what a test wants."""

from __future__ import annotations

import asyncio
import warnings
from dataclasses import dataclass, field
from typing import Any

import httpx

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # svcs, which Airflow uses, imports Starlette's client of tests, which warns
    import starlette.testclient  # noqa: F401

from fastapi import FastAPI

from holdfast_airflow.page import rights
from tests.support.airflow.database import AirflowRows


@dataclass
class Rights:
    """The auth manager of a test: what its only user may do.

    :param methods: on each DAG, such as `PUT`, or `POST RUN` to trigger it.
    """

    methods: set[str] = field(default_factory=lambda: {"GET", "PUT", "POST RUN"})
    dags: set[str] = field(default_factory=lambda: {"restore_shop"})
    connections: bool = True
    import_errors: bool = True

    def is_authorized_dag(self, *, method: str, details: Any, user: Any, access_entity: Any = None) -> bool:
        asked = f"{method} {access_entity.name}" if access_entity else method
        return details.id in self.dags and asked in self.methods

    def is_authorized_connection(self, *, method: str, user: Any) -> bool:
        return self.connections and method == "PUT"

    def is_authorized_view(self, *, access_view: Any, user: Any) -> bool:
        return self.import_errors and access_view.name == "IMPORT_ERRORS"

    def filter_authorized_dag_ids(self, *, dag_ids: set[str], user: Any) -> set[str]:
        return dag_ids & self.dags

    def get_url_login(self, *, next_url: str) -> str:
        return f"/login?next={next_url}"


@dataclass
class Browsed:
    """The page's application, asked without a server."""

    application: FastAPI
    rights: Rights
    airflow: AirflowRows

    def ask(self, method: str, path: str, **more: Any) -> httpx.Response:
        """Send one request."""

        async def send() -> httpx.Response:
            transport = httpx.ASGITransport(self.application)
            async with httpx.AsyncClient(transport=transport, base_url="http://airflow.example") as client:
                return await client.request(method, path, **more)

        return asyncio.run(send())

    def get(self, path: str, **query: Any) -> httpx.Response:
        return self.ask("GET", path, params=query)

    def post(self, path: str, body: Any, header: str | None = "1") -> httpx.Response:
        return self.ask("POST", path, json=body, headers={rights.HEADER: header} if header else {})
