"""Routes that change an archive, each traced in the archive and in Airflow's audit log."""

from __future__ import annotations

from functools import partial
from typing import Any

from airflow.api_fastapi.core_api.security import GetUserDep  # noqa: TC002 - FastAPI reads it at run time
from airflow.models.log import Log
from airflow.utils.retries import run_with_db_retries
from airflow.utils.session import create_session
from fastapi import APIRouter
from fastapi.concurrency import run_in_threadpool
from pydantic import BaseModel, ConfigDict, Field

from holdfast_airflow.page import rights
from holdfast_airflow.page.page import HoldId, PageDep, Txn  # noqa: TC001 - FastAPI reads them at run time
from holdfast_airflow.page.rights import Breakable, Changeable  # noqa: TC001 - FastAPI reads them at run time

changing = APIRouter(prefix="/api/archives/{archive}")


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", str_strip_whitespace=True)


class BreakBody(_Body):
    """Decision to break a lock."""

    reason: str = Field(min_length=1, max_length=500, description="Why; kept in the archive with the user's name.")


class HoldBody(_Body):
    """Decision to hold a restore point."""

    source: str = Field(min_length=1, max_length=64)
    at: str = Field(min_length=1, max_length=200, description="As for `--at` of a restore.")
    reason: str = Field(min_length=1, max_length=500, description="Why, for a reader in a year.")


class ReleaseBody(_Body):
    """Decision to take a hold back."""

    reason: str = Field(min_length=1, max_length=500)


@changing.post("/locks/{txn}/break")
async def break_lock(archive: Breakable, txn: Txn, body: BreakBody, user: GetUserDep, page: PageDep) -> dict[str, Any]:
    """Break a lock: its holder's uncommitted work is lost."""
    name = user.get_name()
    opened = page.opened(archive)
    await run_in_threadpool(_audit, archive, name, "holdfast_break_lock", f"{txn}: {body.reason}")
    return await page.looks.within(partial(opened.break_lock, txn, reason=body.reason, user=name))


@changing.post("/holds")
async def add_hold(archive: Changeable, body: HoldBody, user: GetUserDep, page: PageDep) -> dict[str, Any]:
    """Hold a restore point: no truncation takes it."""
    name = user.get_name()
    opened = page.opened(archive)
    await run_in_threadpool(_audit, archive, name, "holdfast_hold", f"{body.source} at {body.at}: {body.reason}")
    return await page.looks.within(partial(opened.hold, body.source, body.at, reason=body.reason, user=name))


@changing.post("/holds/{hold}/release")
async def release_hold(
    archive: Changeable, hold: HoldId, body: ReleaseBody, user: GetUserDep, page: PageDep
) -> dict[str, Any]:
    """Take a hold back: from then on only the rules keep its restore point."""
    name = user.get_name()
    opened = page.opened(archive)
    await run_in_threadpool(_audit, archive, name, "holdfast_release_hold", f"{hold}: {body.reason}")
    return await page.looks.within(partial(opened.release, hold, reason=body.reason, user=name))


def _audit(archive: str, user: str, event: str, words: str) -> None:
    for attempt in run_with_db_retries():
        with attempt, create_session() as session:
            session.add(Log(event=event, owner=user, dag_id=rights.dag_of(archive), extra=words))
