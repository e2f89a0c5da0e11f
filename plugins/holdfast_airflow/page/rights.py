"""Rights on the page: every route asks Airflow's auth manager about the archive's restore DAG.

| who | needs |
| --- | --- |
| reads | to read the DAG `restore_<archive>` |
| starts a DAG, such as a backup or a drill | to create runs of it: Airflow's own API starts it, and checks again |
| holds and releases restore points | to edit it |
| breaks locks | to edit it, and connections: with an archive's credentials one could break a lock anyway |
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import AccessView, DagAccessEntity, DagDetails
from airflow.api_fastapi.core_api.security import GetUserDep  # noqa: TC002 - FastAPI reads it at run time
from airflow.models.dag import DagModel
from fastapi import Depends, Header, HTTPException, Path, status

from holdfast.config.archives_model import NAME

if TYPE_CHECKING:
    from collections.abc import Iterable

HEADER = "X-Holdfast-Request"
"""A header that changes need: a form of a foreign page cannot send it, so that a session's cookie alone is no right."""

ArchiveName = Annotated[str, Path(pattern=f"^{NAME}$", description="Name in archives.yaml.")]


def dag_of(archive: str) -> str:
    """Return the id of the DAG whose rights are those of an archive."""
    return f"restore_{archive}"


def readable(archives: set[str], user: GetUserDep) -> set[str]:
    """Return the archives that a user may see."""
    dag_ids = get_auth_manager().filter_authorized_dag_ids(dag_ids={dag_of(name) for name in archives}, user=user)
    return {name for name in archives if dag_of(name) in dag_ids}


def sees_import_errors(user: GetUserDep) -> bool:
    """Return whether a user may see mistakes of archives.yaml."""
    return get_auth_manager().is_authorized_view(access_view=AccessView.IMPORT_ERRORS, user=user)


def may_read(archive: ArchiveName, user: GetUserDep) -> str:
    """Return the archive's name if the user may see it; else 403."""
    return _allowed(archive, get_auth_manager().is_authorized_dag(method="GET", details=_details(archive), user=user))


def may_change(
    archive: ArchiveName, user: GetUserDep, asked: Annotated[str | None, Header(alias=HEADER)] = None
) -> str:
    """Return the archive's name if the user may change it by the page itself; else 403."""
    edits = get_auth_manager().is_authorized_dag(method="PUT", details=_details(archive), user=user)
    return _allowed(archive, edits and asked is not None)


def may_break(archive: Annotated[str, Depends(may_change)], user: GetUserDep) -> str:
    """Return the archive's name if the user may break its locks; else 403."""
    return _allowed(archive, get_auth_manager().is_authorized_connection(method="PUT", user=user))


def startable(dags: Iterable[str], user: GetUserDep) -> list[str]:
    """Return the DAGs of which a user may create runs."""
    manager = get_auth_manager()
    return [
        dag
        for dag in dags
        if manager.is_authorized_dag(
            method="POST", access_entity=DagAccessEntity.RUN, details=_details_of(dag), user=user
        )
    ]


def rights_of(archive: str, user: GetUserDep) -> dict[str, bool]:
    """Return the changes that a user may make."""
    manager = get_auth_manager()
    edits = manager.is_authorized_dag(method="PUT", details=_details(archive), user=user)
    return {
        "restore": bool(startable([dag_of(archive)], user)),
        "hold": edits,
        "break": edits and manager.is_authorized_connection(method="PUT", user=user),
    }


def _details(archive: str) -> DagDetails:
    return _details_of(dag_of(archive))


def _details_of(dag: str) -> DagDetails:
    return DagDetails(id=dag, team_name=DagModel.get_team_name(dag))


def _allowed(archive: str, is_allowed: bool) -> str:
    if not is_allowed:
        raise HTTPException(status.HTTP_403_FORBIDDEN, "Forbidden")
    return archive


Readable = Annotated[str, Depends(may_read)]
Changeable = Annotated[str, Depends(may_change)]
Breakable = Annotated[str, Depends(may_break)]
