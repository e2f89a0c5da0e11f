"""The page's application: JSON, and plain assets. Every route is authenticated, and no GET changes anything."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.core_api.security import get_user
from fastapi import APIRouter, Depends, FastAPI, HTTPException, Request, status
from fastapi.responses import FileResponse, JSONResponse, RedirectResponse
from sqlalchemy.exc import SQLAlchemyError
from starlette.exceptions import HTTPException as AnyHTTPException

from holdfast import __version__
from holdfast.common.errors import BusyError, HoldfastError, RefusedError, UsageError, exit_code_of, sentence
from holdfast_airflow.page.changing import changing
from holdfast_airflow.page.looks import LookTimedOutError
from holdfast_airflow.page.page import Page
from holdfast_airflow.page.reading import reading
from locking import LockError
from locking.one_line import line_logger
from locking.store import StoreError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from fastapi import Response

STATIC = Path(__file__).parent / "static"

ASSETS = {path.name: path for path in STATIC.iterdir() if path.suffix in (".css", ".js")}

_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; frame-ancestors 'self'; base-uri 'none'; form-action 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}

_STATUS = {
    UsageError.exit_code: status.HTTP_422_UNPROCESSABLE_CONTENT,
    BusyError.exit_code: status.HTTP_409_CONFLICT,
    RefusedError.exit_code: status.HTTP_409_CONFLICT,
}

_log = line_logger(__name__)

_assets = APIRouter(include_in_schema=False)


def create_application() -> FastAPI:
    """Return the application, for the mount point `/holdfast`."""
    application = FastAPI(
        title="Holdfast",
        version=__version__,
        description="Archives, as the Holdfast page shows them, in the words of the command's `--json`.",
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        dependencies=[Depends(get_user)],
    )
    application.state.page = Page()
    application.middleware("http")(_add_headers)
    application.exception_handler(AnyHTTPException)(_send_to_login)
    for kind in (HoldfastError, LockError, StoreError, LookTimedOutError):
        application.exception_handler(kind)(_explain)
    application.exception_handler(SQLAlchemyError)(_blame_database)
    for router in (_assets, reading, changing):
        application.include_router(router)
    return application


@_assets.get("/")
def page() -> FileResponse:
    """Return the page."""
    return FileResponse(STATIC / "index.html")


@_assets.get("/assets/{name}")
def asset(name: str) -> FileResponse:
    """Return a script or a style sheet of the page."""
    if name not in ASSETS:
        raise HTTPException(status.HTTP_404_NOT_FOUND, "no such asset")
    return FileResponse(ASSETS[name])


@_assets.get("/openapi.json")
def openapi(request: Request) -> dict[str, Any]:
    """Describe the routes."""
    document: dict[str, Any] = request.app.openapi()
    return document


async def _add_headers(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
    response = await call_next(request)
    response.headers.update(_HEADERS)
    return response


async def _send_to_login(request: Request, error: Exception) -> Response:
    """Send a browser without a session to Airflow's login. Everything else gets the status and a sentence."""
    assert isinstance(error, AnyHTTPException)  # noqa: S101 - says to mypy what this handler is for
    is_page = request.method == "GET" and request.url.path.rstrip("/") == request.scope.get("root_path", "").rstrip("/")
    if error.status_code == status.HTTP_401_UNAUTHORIZED and is_page:
        return RedirectResponse(get_auth_manager().get_url_login(next_url=str(request.url)), status.HTTP_303_SEE_OTHER)
    return JSONResponse({"error": error.detail}, error.status_code, headers=error.headers)


async def _explain(_: Request, error: Exception) -> Response:
    """Answer with the sentence that the command would print, and its exit code."""
    if isinstance(error, LookTimedOutError):
        return JSONResponse({"error": str(error)}, status.HTTP_504_GATEWAY_TIMEOUT)
    code = exit_code_of(error)
    return JSONResponse({"error": sentence(error), "exit_code": code}, _STATUS.get(code, status.HTTP_502_BAD_GATEWAY))


async def _blame_database(_: Request, error: Exception) -> Response:
    """Say that Airflow's database failed. What it said belongs into the log: it may quote values of a statement."""
    _log.error("Airflow's database failed under the Holdfast page", exc_info=error)
    message = "Airflow's database does not answer as it should, so nothing was begun: try again; its log says more"
    return JSONResponse({"error": message}, status.HTTP_503_SERVICE_UNAVAILABLE)
