"""Routes that read: Airflow's database for the list, one archive where it is looked at."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any

from airflow.api_fastapi.common.db.common import SessionDep  # noqa: TC002 - FastAPI reads it at run time
from airflow.api_fastapi.core_api.security import GetUserDep  # noqa: TC002 - FastAPI reads it at run time
from airflow.utils.session import create_session
from fastapi import APIRouter, Query

from holdfast.archive.locks.owner_status import Word
from holdfast.common.errors import UsageError
from holdfast_airflow.page import rights
from holdfast_airflow.page.activity import DatabaseScheduler, dags_of
from holdfast_airflow.page.opened import PlannedOperation  # noqa: TC001 - FastAPI reads it at run time
from holdfast_airflow.page.overview import archive_of, detail, entry_by, overview, shown_archives
from holdfast_airflow.page.page import PageDep, SourceName  # noqa: TC001 - FastAPI reads them at run time
from holdfast_airflow.page.recent_runs import recent_backups
from holdfast_airflow.page.rights import Readable  # noqa: TC001 - FastAPI reads it at run time

MOST_RUNS = 20

reading = APIRouter(prefix="/api/archives")


@reading.get("")
def list_archives(
    session: SessionDep, user: GetUserDep, page: PageDep, dag: Annotated[str | None, Query(max_length=250)] = None
) -> dict[str, Any]:
    """List the archives that the user may see, by what tasks have recorded; no store is asked.

    With `dag`, `of_dag` is the one of them that this DAG belongs to.
    """
    configuration = page.configurations.current()
    shown = rights.readable(shown_archives(session, configuration), user)
    now = datetime.now(UTC)
    return {
        "now": now.isoformat(),
        "archives": overview(session, configuration, shown, now),
        "of_dag": archive_of(session, dag, shown) if dag else None,
        "problem": configuration.problem if rights.sees_import_errors(user) else "",
    }


@reading.get("/{archive}")
def describe_archive(archive: Readable, session: SessionDep, user: GetUserDep, page: PageDep) -> dict[str, Any]:
    """Describe one archive by what tasks have recorded. No store is asked."""
    now = datetime.now(UTC)
    described = detail(session, page.configurations.current(), archive, now)
    starts = rights.startable((dag["dag_id"] for dag in described["dags"]), user)
    return {"now": now.isoformat(), **described, "rights": {**rights.rights_of(archive, user), "start": starts}}


@reading.get("/{archive}/now")
async def look_at_archive(archive: Readable, page: PageDep) -> dict[str, Any]:
    """Open the archive, and describe it as it is: record, verdicts by it, backups, locks, holds, drills, growth."""

    def look() -> dict[str, Any]:
        opened = page.opened(archive)
        with create_session() as session:
            described = opened.now(Word(DatabaseScheduler(session)).state_of)
            configuration, now = page.configurations.current(), datetime.now(UTC)
            entry = entry_by(session, configuration, archive, described["record"], now)
            sources = [source["source"] for source in entry["sources"]]
            backups = recent_backups(session, dags_of(session, [archive]).of(archive), sources, now)
            return {**described, "entry": entry, "backups": opened.backups(backups)}

    return await page.looks.within(look)


@reading.get("/{archive}/progress")
async def look_at_progress(
    archive: Readable, page: PageDep, run: Annotated[list[str], Query(max_length=MOST_RUNS)]
) -> dict[str, Any]:
    """Return how far jobs are, by their runs. Null for one that has recorded nothing."""
    return await page.looks.within(partial(page.opened(archive).progress, run))


@reading.get("/{archive}/plans/{operation}")
async def look_at_plan(archive: Readable, operation: PlannedOperation, page: PageDep) -> dict[str, Any]:
    """Say what a compaction, or a truncation, would do now. Nothing is changed."""
    return await page.looks.within(partial(page.opened(archive).plan, operation))


@reading.get("/{archive}/sources/{source}/line")
async def look_at_line(
    archive: Readable,
    source: SourceName,
    page: PageDep,
    start: datetime | None = None,
    end: datetime | None = None,
    parts: Annotated[int, Query(ge=1, le=5000)] = 1000,
    commits: Annotated[int | None, Query(ge=0)] = None,
) -> dict[str, Any]:
    """Return a source's restorable-time line between two times.

    With `commits`, the store is not asked for more than so many.
    """
    if any(time is not None and time.tzinfo is None for time in (start, end)):
        raise UsageError("write times with their zone, such as 2026-03-01T12:00:00Z")
    if start is not None and end is not None and start >= end:
        raise UsageError("the line's end must be later than its start")
    return await page.looks.within(partial(page.opened(archive).line, source, start, end, parts, commits))


@reading.get("/{archive}/sources/{source}/moment")
async def resolve_moment(
    archive: Readable, source: SourceName, page: PageDep, at: Annotated[str, Query(min_length=1, max_length=200)]
) -> dict[str, Any]:
    """Resolve a recovery target, or say which ones are nearest."""
    return await page.looks.within(partial(page.opened(archive).moment, source, at))
