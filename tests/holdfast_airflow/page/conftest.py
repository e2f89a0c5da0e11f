"""Airflow's database as the page reads it, and the page as browsers ask it."""

from __future__ import annotations

import typing
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from types import SimpleNamespace

import pytest

from tests.support.airflow.database import AirflowRows, airflow_rows
from tests.support.airflow.page import Browsed, Rights

from airflow.api_fastapi.common.db.common import SessionDep  # isort: skip - once the page's support has been imported
from airflow.api_fastapi.core_api.security import get_user  # isort: skip
from airflow.models.dag import DagModel  # isort: skip
from fastapi import FastAPI  # isort: skip
from sqlalchemy.orm import Session  # isort: skip

from holdfast_airflow.page import application, changing, reading, rights  # isort: skip
from holdfast_airflow.page.page import Page  # isort: skip


@pytest.fixture
def airflow() -> Iterator[AirflowRows]:
    """Empty tables of Airflow."""
    with airflow_rows() as rows:
        yield rows


@cache
def _application() -> FastAPI:
    """Return the application, which takes a while to be made."""
    return application.create_application()


@pytest.fixture
def page(airflow: AirflowRows, monkeypatch: pytest.MonkeyPatch) -> Browsed:
    """The page for Olga, who may do everything with the archive `shop` unless a test says otherwise."""
    made, allowed = _application(), Rights()
    made.state.page = Page()
    monkeypatch.setattr(made, "dependency_overrides", {})

    @contextmanager
    def session() -> Iterator[Session]:
        yield airflow.session
        airflow.session.flush()

    for module in (rights, application):
        monkeypatch.setattr(module, "get_auth_manager", lambda: allowed)
    for module in (reading, changing):
        monkeypatch.setattr(module, "create_session", session)
    monkeypatch.setattr(DagModel, "get_team_name", lambda dag_id: None)
    _, depends = typing.get_args(SessionDep)
    made.dependency_overrides[depends.dependency] = lambda: airflow.session
    made.dependency_overrides[get_user] = lambda: SimpleNamespace(get_name=lambda: "olga")
    return Browsed(made, allowed, airflow)
