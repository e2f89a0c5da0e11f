"""Status of lock owners, as Airflow reports it.

That an owner has finished saves a lock's grace and never its lease: the process of a task that Airflow has given up may
still be at work. Everything but a clear "it has ended" counts as alive: scheduled, queued, deferred, up for retry,
unknown to this Airflow, or an Airflow that does not answer.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol
from urllib.parse import quote, urlsplit

from holdfast.common.errors import UsageError
from locking.one_line import line_logger

if TYPE_CHECKING:
    import httpx

    from locking import Owner

log = line_logger(__name__)

URL_VARIABLE = "HOLDFAST_AIRFLOW_URL"
TOKEN_VARIABLE = "AIRFLOW_CLI_TOKEN"  # noqa: S105 - a name, not a secret
"""The variable that Airflow's own airflowctl takes its token from."""

RUN_HAS_ENDED = frozenset({"success", "failed"})
TASK_HAS_ENDED = frozenset({"success", "failed", "skipped", "upstream_failed", "removed"})
"""States that Airflow itself moves nothing out of (airflow.utils.state, 3.3)."""

TIMEOUT_S = 10.0


class Scheduler(Protocol):
    """Scheduler that is asked for states: Airflow's words, or None where it knows of none."""

    def run_state(self, dag_id: str, run_id: str) -> str | None: ...

    def task_state(self, dag_id: str, run_id: str, task_id: str, map_index: int) -> str | None:
        """Return the state of a task instance; one that is not mapped has the index -1."""
        ...

    def is_paused(self, dag_id: str) -> bool:
        """Return whether a DAG is paused, so that no further task of its runs begins."""
        ...


@dataclass(frozen=True)
class OwnerState:
    """State of an owner, in a scheduler's words."""

    state: str = ""  # its word for the state of the owner's run or task; "" where it knows of none, or was not asked
    has_ended: bool = False  # whether the owner has ended for certain
    is_paused: bool = False  # whether the DAG of a run that has not ended is paused: nothing more of the run begins


UNKNOWN = OwnerState()


def nobodys_state(owner: Owner) -> OwnerState:
    """Return the unknown state, where there is no scheduler."""
    return UNKNOWN


@dataclass(frozen=True)
class Word:
    """Lookup of lock owners' states in a scheduler; never raises for the scheduler's sake."""

    scheduler: Scheduler

    def has_finished(self, owner: Owner) -> bool:
        return self._state(owner).has_ended

    def state_of(self, owner: Owner) -> OwnerState:
        found = self._state(owner)
        is_at_work = owner.scope == "run" and found.state and not found.has_ended
        return replace(found, is_paused=self._is_paused(str(owner.dag_id))) if is_at_work else found

    def _state(self, owner: Owner) -> OwnerState:
        if owner.scope == "process" or owner.dag_id is None or owner.run_id is None:
            return UNKNOWN
        try:
            if owner.scope == "run":
                state, ended = self.scheduler.run_state(owner.dag_id, owner.run_id), RUN_HAS_ENDED
            elif owner.task_id is None:
                return UNKNOWN
            else:
                index = -1 if owner.map_index is None else owner.map_index
                state = self.scheduler.task_state(owner.dag_id, owner.run_id, owner.task_id, index)
                ended = TASK_HAS_ENDED
        except Exception as error:  # noqa: BLE001 - whatever keeps the answer away, the owner counts as alive
            log.warning("Airflow could not be asked about %s, so it counts as alive: %s", owner.describe(), error)
            return UNKNOWN
        return OwnerState(state or "", state in ended)

    def _is_paused(self, dag_id: str) -> bool:
        try:
            return self.scheduler.is_paused(dag_id)
        except Exception as error:  # noqa: BLE001 - whatever keeps the answer away, it only explains
            log.warning("Airflow could not be asked whether %s is paused: %s", dag_id, error)
            return False


class AirflowApi:
    """Airflow's REST API (v2), as far as owners of locks go; it answers None for what it has not.

    :param url: where its API server listens, such as `https://airflow.example`; without a password in it.
    :param token: as `airflowctl` or `POST /auth/token` gives it; taken from the environment where it is not given.
    :raises UsageError: the URL is none, or there is no token.
    """

    def __init__(self, url: str, *, token: str | None = None) -> None:
        import httpx

        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
            raise UsageError(
                "Airflow's address is an http or https URL without a user, such as https://airflow.example"
            )
        token = token or os.environ.get(TOKEN_VARIABLE)
        if not token:
            raise UsageError(f"Airflow wants to know who asks: set {TOKEN_VARIABLE}, as for airflowctl")
        self._http = httpx.Client(
            base_url=url, timeout=TIMEOUT_S, headers={"Authorization": f"Bearer {token}"}, follow_redirects=False
        )

    def run_state(self, dag_id: str, run_id: str) -> str | None:
        return self._state(f"/api/v2/dags/{quote(dag_id, safe='')}/dagRuns/{quote(run_id, safe='')}")

    def task_state(self, dag_id: str, run_id: str, task_id: str, map_index: int) -> str | None:
        path = f"/api/v2/dags/{quote(dag_id, safe='')}/dagRuns/{quote(run_id, safe='')}/taskInstances"
        mapped = f"/{map_index}" if map_index >= 0 else ""
        return self._state(f"{path}/{quote(task_id, safe='')}{mapped}")

    def is_paused(self, dag_id: str) -> bool:
        answer: httpx.Response = self._http.get(f"/api/v2/dags/{quote(dag_id, safe='')}")
        if answer.status_code == 404:
            return False
        answer.raise_for_status()
        return bool(answer.json().get("is_paused"))

    def close(self) -> None:
        self._http.close()

    def _state(self, path: str) -> str | None:
        answer: httpx.Response = self._http.get(path)
        if answer.status_code == 404:
            return None
        answer.raise_for_status()
        state = answer.json().get("state")
        return None if state is None else str(state)


__all__ = ["AirflowApi", "OwnerState", "Scheduler", "Word", "nobodys_state"]
