"""The page's application: who is let in, what each answer carries, and errors in the command's own words."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest
from airflow.api_fastapi.core_api.security import get_user
from fastapi import HTTPException

from holdfast.common.errors import BusyError, DamagedError, HoldfastError, RefusedError, UsageError
from holdfast.storage import ObjectStore
from holdfast_airflow.page import application
from holdfast_airflow.page.application import ASSETS
from holdfast_airflow.page.looks import LookTimedOutError
from holdfast_airflow.plugin import LazyApplication
from locking import LockBusy
from locking.store import StoreUnavailable
from tests.support.airflow.page import Browsed


@pytest.fixture
def nobody(page: Browsed) -> Browsed:
    """The page for who has not logged in."""

    def refuse() -> None:
        raise HTTPException(401, "Not authenticated", headers={"WWW-Authenticate": "Bearer"})

    page.application.dependency_overrides[get_user] = refuse
    return page


def test_the_page_and_its_assets_may_load_nothing_from_elsewhere(page: Browsed) -> None:
    for path in ("/", *(f"/assets/{name}" for name in ASSETS)):
        answer = page.get(path)
        assert answer.status_code == 200
        assert "default-src 'none'; script-src 'self'" in answer.headers["Content-Security-Policy"]
        assert (answer.headers["X-Content-Type-Options"], answer.headers["Cache-Control"]) == ("nosniff", "no-store")
    assert ASSETS


@pytest.mark.parametrize("name", ["index.html", "nothing.js", "..%2Fapplication.py"])
def test_other_files_are_no_assets(page: Browsed, name: str) -> None:
    answer = page.get(f"/assets/{name}")
    assert answer.status_code == 404
    assert "error" in answer.json()


def test_a_browser_is_sent_to_the_login_and_all_else_is_refused(nobody: Browsed) -> None:
    answer = nobody.get("/")
    assert (answer.status_code, answer.headers["Location"]) == (303, "/login?next=http://airflow.example/")
    for path in ("/openapi.json", "/api/archives", "/api/archives/shop", *(f"/assets/{name}" for name in ASSETS)):
        answer = nobody.get(path)
        assert (answer.status_code, answer.json()) == (401, {"error": "Not authenticated"})
        assert answer.headers["WWW-Authenticate"] == "Bearer"
    assert nobody.post("/", {}).status_code in (401, 405)


@pytest.mark.parametrize(
    ("error", "status", "told"),
    [
        (UsageError("say which"), 422, {"error": "say which", "exit_code": 2}),
        (BusyError("somebody works"), 409, {"error": "somebody works", "exit_code": 3}),
        (LockBusy("held by process 7"), 409, {"error": "held by process 7", "exit_code": 3}),
        (RefusedError("not so"), 409, {"error": "not so", "exit_code": 5}),
        (DamagedError("a file is gone"), 502, {"error": "a file is gone", "exit_code": 4}),
        (HoldfastError("it failed"), 502, {"error": "it failed", "exit_code": 1}),
        (StoreUnavailable("no route"), 502, {"error": "no route", "exit_code": 1}),
        (LookTimedOutError("too long"), 504, {"error": "too long"}),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_an_error_is_told_as_the_command_tells_it(
    page: Browsed,
    store: ObjectStore,
    error: Exception,
    status: int,
    told: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> Callable[..., Any]:
        raise error

    monkeypatch.setattr(type(page.application.state.page), "opened", fail)
    answer = page.get("/api/archives/shop/plans/compaction")
    assert (answer.status_code, answer.json()) == (status, told)
    assert answer.headers["Cache-Control"] == "no-store"


def test_its_routes_are_described(page: Browsed) -> None:
    told = page.get("/openapi.json").json()
    assert told["info"]["title"] == "Holdfast"
    assert "/api/archives/{archive}/holds" in told["paths"]
    # Nothing that only reads changes anything.
    assert {path for path, methods in told["paths"].items() if set(methods) - {"get"}} == {
        "/api/archives/{archive}/locks/{txn}/break",
        "/api/archives/{archive}/holds",
        "/api/archives/{archive}/holds/{hold}/release",
    }


def test_it_is_built_by_its_first_request_and_only_once(monkeypatch: pytest.MonkeyPatch) -> None:
    built, asked = [], []

    def create() -> Any:
        async def answer(scope: Any, receive: Any, send: Any) -> None:
            asked.append(scope["path"])

        built.append(answer)
        return answer

    monkeypatch.setattr(application, "create_application", create)
    lazy, nothing = LazyApplication(), cast("Any", None)
    assert built == []
    for path in ("/", "/api"):
        asyncio.run(lazy({"path": path}, nothing, nothing))
    assert (asked, len(built)) == (["/", "/api"], 1)
