"""Airflow's own REST API, as far as the demo and the tests need it."""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_fixed

from holdfast.common.errors import HoldfastError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_FINISHED = frozenset({"success", "failed"})
_LOG_PAGES = 100
_PAGE = 100
"""DAGs in one answer; Airflow gives no more."""


class AirflowApiError(HoldfastError):
    """Airflow answered with an error."""


class _TurnedAwayError(AirflowApiError):
    """Airflow could not do it just now."""


class AirflowTimeoutError(HoldfastError):
    """What was waited for did not come in time."""


@dataclass(frozen=True)
class TaskInstance:
    """What Airflow says of one task of a run. `duration_s` is None until it has ended."""

    task_id: str
    map_index: int
    state: str | None
    try_number: int
    duration_s: float | None


class AirflowApi:
    """A logged-in client.

    :param url: where the API server listens, such as `http://127.0.0.1:8080`.
    """

    def __init__(self, *, url: str, username: str, password: str) -> None:
        self._login = {"username": username, "password": password}
        self._http = httpx.Client(base_url=url, timeout=120.0, trust_env=False)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def health(self) -> dict[str, Any] | None:
        """Return the health of each component, or None while nobody answers; needs no log-in."""
        try:
            answer = self._http.get("/api/v2/monitor/health", timeout=5.0)
            return dict(answer.json()) if answer.is_success else None
        except (httpx.HTTPError, ValueError):
            return None

    def log_in(self) -> None:
        """Get a token for all that follows.

        :raises AirflowApiError: the name or the password is wrong.
        """
        answer = self._http.post("/auth/token", json=self._login)
        self._http.headers["Authorization"] = f"Bearer {_checked(answer)['access_token']}"

    def trigger(self, dag_id: str, conf: Mapping[str, Any] | None = None, run_id: str | None = None) -> str:
        """Create a run and return its id.

        :raises AirflowApiError: no such DAG, or `conf` does not fit its form.
        """
        # A null logical date is how the API asks for a run that stands for no schedule.
        name = run_id or f"manual__{uuid.uuid4()}"
        body = {"logical_date": None, "conf": dict(conf or {}), "dag_run_id": name}
        # Its metadata are in SQLite here, where one of two who write at the same moment may be turned away.
        for attempt in Retrying(
            retry=retry_if_exception_type(_TurnedAwayError),
            stop=stop_after_attempt(5),
            wait=wait_fixed(1),
            reraise=True,
        ):
            with attempt:
                answer = self._http.post(f"/api/v2/dags/{dag_id}/dagRuns", json=body)
                again = attempt.retry_state.attempt_number > 1
                if not (again and answer.status_code == httpx.codes.CONFLICT):  # the one before was taken after all
                    _checked(answer)
        return name

    def state(self, dag_id: str, run_id: str) -> str:
        """Return the state of a run: queued, running, success or failed."""
        return str(self._get(f"/api/v2/dags/{dag_id}/dagRuns/{run_id}")["state"])

    def end_run(self, dag_id: str, run_id: str) -> None:
        """Mark a run as failed, as a person does in the UI: Airflow ends its tasks.

        :raises AirflowApiError: no such run.
        """
        _checked(self._http.patch(f"/api/v2/dags/{dag_id}/dagRuns/{run_id}", json={"state": "failed"}))

    def pause(self, dag_id: str, *, paused: bool = True) -> None:
        """Pause a DAG, or unpause it.

        :raises AirflowApiError: no such DAG.
        """
        _checked(self._http.patch(f"/api/v2/dags/{dag_id}", json={"is_paused": paused}))

    def tasks(self, dag_id: str, run_id: str) -> list[TaskInstance]:
        """Return the task instances of a run."""
        found = self._get(f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances", limit=100)
        return [
            TaskInstance(
                task_id=task["task_id"],
                map_index=task["map_index"],
                state=task["state"],
                try_number=task["try_number"],
                duration_s=task["duration"],
            )
            for task in found["task_instances"]
        ]

    def task_log(self, dag_id: str, run_id: str, task_id: str, try_number: int = 1, *, map_index: int = -1) -> str:
        """Return the log of one try as text, errors with their whole traceback."""
        path = f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/logs/{try_number}"
        which = {"map_index": map_index} if map_index >= 0 else {}
        lines: list[str] = []
        token: str | None = None
        for _ in range(_LOG_PAGES):
            page = self._get(path, **which, **({"token": token} if token else {"full_content": "true"}))
            lines += [log_line(entry) for entry in page["content"]]
            token = page.get("continuation_token")
            if not token or not page["content"]:
                break
        return "\n".join(lines)

    def rendered_fields(self, dag_id: str, run_id: str, task_id: str) -> dict[str, Any]:
        """Return the template fields as Airflow shows them for one task instance."""
        path = f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}"
        return dict(self._get(path)["rendered_fields"])

    def xcom(self, dag_id: str, run_id: str, task_id: str, key: str = "return_value") -> Any:
        """Return what a task passed on.

        :raises AirflowApiError: nothing under this key.
        """
        path = f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/xcomEntries/{key}"
        return self._get(path)["value"]

    def import_errors(self) -> dict[str, str]:
        """Return the DAG files that could not be read, each with its traceback."""
        found = self._get("/api/v2/importErrors")["import_errors"]
        return {error["filename"]: error["stack_trace"] for error in found}

    def dag_ids(self) -> list[str]:
        """Return the DAGs Airflow knows; it tells a hundred at a time."""
        found: list[str] = []
        while True:
            page = self._get("/api/v2/dags", limit=_PAGE, offset=len(found), order_by="dag_id")["dags"]
            found += [dag["dag_id"] for dag in page]
            if len(page) < _PAGE:
                return found

    def run_ids(self, dag_id: str) -> list[str]:
        """Return the ids of a DAG's runs, at most 100."""
        runs = self._get(f"/api/v2/dags/{dag_id}/dagRuns", limit=_PAGE)["dag_runs"]
        return [str(run["dag_run_id"]) for run in runs]

    def wait_for_dag(self, dag_id: str, *, timeout: float = 240.0) -> None:
        """Wait until Airflow has read a DAG.

        :raises AirflowTimeoutError: it has not; the message quotes Airflow's import errors.
        """
        deadline = time.monotonic() + timeout
        while (answer := self._http.get(f"/api/v2/dags/{dag_id}")).status_code == httpx.codes.NOT_FOUND:
            if time.monotonic() > deadline:
                errors = "; ".join(f"{file}: {text.splitlines()[-1]}" for file, text in self.import_errors().items())
                raise AirflowTimeoutError(f"Airflow has not read the DAG {dag_id} in {timeout:g} s. {errors}".rstrip())
            time.sleep(0.2)
        _checked(answer)

    def wait_for_run(
        self,
        dag_id: str,
        run_id: str,
        *,
        timeout: float = 600.0,
        poll: float = 0.3,
        on_poll: Callable[[str], None] | None = None,
    ) -> str:
        """Wait until a run has ended and return its state, success or failed.

        :param on_poll: called with the state at every look.
        :raises AirflowTimeoutError: it has not ended.
        """
        deadline = time.monotonic() + timeout
        while True:
            state = self.state(dag_id, run_id)
            if on_poll is not None:
                on_poll(state)
            if state in _FINISHED:
                return state
            if time.monotonic() > deadline:
                raise AirflowTimeoutError(f"run {run_id} of {dag_id} is still {state} after {timeout:g} s")
            time.sleep(poll)

    def _get(self, path: str, **query: Any) -> dict[str, Any]:
        return _checked(self._http.get(path, params=query))


def _checked(answer: httpx.Response) -> dict[str, Any]:
    if not answer.is_success:
        request = answer.request
        kind = _TurnedAwayError if answer.is_server_error else AirflowApiError
        raise kind(f"{request.method} {request.url.path}: {answer.status_code} {answer.text[:500]}")
    return dict(answer.json())


def log_line(entry: Any) -> str:
    """Return an entry of a task's log as text, an error with its whole traceback."""
    if not isinstance(entry, dict):
        return str(entry)
    known = ("timestamp", "level", "event", "error_detail", "logger", "filename", "lineno", "loc")
    parts = [str(entry[key]) for key in ("timestamp", "level", "event") if entry.get(key)]
    parts += [f"{key}={value}" for key, value in entry.items() if key not in known and value]
    for error in entry.get("error_detail") or ():
        parts.append(f"\n  {error.get('exc_type')}: {error.get('exc_value')}")
        parts += [f"\n    {at['filename']}:{at['lineno']} {at['name']}" for at in error.get("frames") or ()]
    return " ".join(parts)
