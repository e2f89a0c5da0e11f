"""The demo's client of Airflow's REST API, before a server that answers as a test says."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from demo.airflow_api import AirflowApi, AirflowApiError, AirflowTimeoutError, TaskInstance
from tests.support.no_waiting import no_waiting

RUN = "/api/v2/dags/backup_shop/dagRuns/first"


@dataclass
class Asked:
    what: str
    body: Any
    token: str | None


@dataclass
class Answers:
    """What is answered: to each request the next of its list, and the last one from then on."""

    to: dict[str, list[tuple[int, Any]]] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)

    def next(self, what: str) -> tuple[int, Any]:
        known = self.to.get(what, [(404, {"detail": "not found"})])
        return known.pop(0) if len(known) > 1 else known[0]


@pytest.fixture
def answers() -> Answers:
    return Answers()


@pytest.fixture
def api(answers: Answers) -> Iterator[AirflowApi]:
    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            what = f"{self.command} {self.path}"
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            answers.asked.append(Asked(what, json.loads(body or "null"), self.headers.get("Authorization")))
            status, given = answers.next(what)
            text = (given if isinstance(given, str) else json.dumps(given)).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def do_GET(self) -> None:
            self.answer()

        def do_POST(self) -> None:
            self.answer()

        def do_PATCH(self) -> None:
            self.answer()

        def log_message(self, *args: Any) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        client = AirflowApi(url=f"http://127.0.0.1:{server.server_address[1]}", username="admin", password="shown")
        try:
            yield client
        finally:
            client.close()
            server.shutdown()
            thread.join()


HEALTH = {"metadatabase": {"status": "healthy"}}


@pytest.mark.parametrize(
    ("answer", "health"),
    [((200, HEALTH), HEALTH), ((503, HEALTH), None), ((200, "<html>starting</html>"), None)],
)
def test_health_is_none_until_it_is_told(
    api: AirflowApi, answers: Answers, answer: tuple[int, Any], health: dict[str, Any] | None
) -> None:
    answers.to["GET /api/v2/monitor/health"] = [answer]

    assert api.health() == health


def test_health_is_none_while_nobody_listens() -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as closed:
        port = closed.server_address[1]
    api = AirflowApi(url=f"http://127.0.0.1:{port}", username="admin", password="shown")

    assert api.health() is None
    api.close()


def test_the_token_of_the_log_in_goes_with_all_that_follows(api: AirflowApi, answers: Answers) -> None:
    answers.to["POST /auth/token"] = [(201, {"access_token": "t0k3n"})]
    answers.to[f"GET {RUN}"] = [(200, {"state": "queued"})]
    api.log_in()

    assert api.state("backup_shop", "first") == "queued"
    assert answers.asked[0].body == {"username": "admin", "password": "shown"}
    assert [asked.token for asked in answers.asked] == [None, "Bearer t0k3n"]


def test_a_wrong_password_is_an_error_that_quotes_airflow(api: AirflowApi, answers: Answers) -> None:
    answers.to["POST /auth/token"] = [(401, {"detail": "Invalid credentials"})]

    with pytest.raises(AirflowApiError, match=re.escape('POST /auth/token: 401 {"detail": "Invalid credentials"}')):
        api.log_in()


TRIGGER = "POST /api/v2/dags/backup_shop/dagRuns"


def test_a_run_is_asked_for_without_a_logical_date(api: AirflowApi, answers: Answers) -> None:
    answers.to[TRIGGER] = [(200, {})]

    assert api.trigger("backup_shop", {"kind": "full"}, "first") == "first"
    assert answers.asked[0].body == {"logical_date": None, "conf": {"kind": "full"}, "dag_run_id": "first"}


def test_runs_without_a_name_get_one_each(api: AirflowApi, answers: Answers) -> None:
    answers.to[TRIGGER] = [(200, {})]

    names = [api.trigger("backup_shop"), api.trigger("backup_shop")]
    assert [asked.body["dag_run_id"] for asked in answers.asked] == names
    assert len(set(names)) == 2
    assert all(name.startswith("manual__") for name in names)


@pytest.mark.parametrize(
    "then", [pytest.param((200, {}), id="taken now"), pytest.param((409, "exists"), id="was taken after all")]
)
def test_a_run_that_is_turned_away_is_asked_for_again_under_its_name(
    api: AirflowApi, answers: Answers, monkeypatch: pytest.MonkeyPatch, then: tuple[int, Any]
) -> None:
    no_waiting(monkeypatch)
    answers.to[TRIGGER] = [(500, "database is locked"), (503, "busy"), then]

    name = api.trigger("backup_shop")
    assert [asked.body["dag_run_id"] for asked in answers.asked] == [name] * 3


def test_a_run_is_not_asked_for_without_end(api: AirflowApi, answers: Answers, monkeypatch: pytest.MonkeyPatch) -> None:
    no_waiting(monkeypatch)
    answers.to[TRIGGER] = [(500, "database is locked")]

    with pytest.raises(AirflowApiError, match="500 database is locked"):
        api.trigger("backup_shop")
    assert len(answers.asked) == 5


@pytest.mark.parametrize("status", [400, 404, 409])
def test_a_run_that_cannot_be_is_asked_for_once(api: AirflowApi, answers: Answers, status: int) -> None:
    answers.to[TRIGGER] = [(status, "no")]

    with pytest.raises(AirflowApiError, match=f"{status} no"):
        api.trigger("backup_shop", run_id="first")
    assert len(answers.asked) == 1


def test_a_run_is_ended_as_failed(api: AirflowApi, answers: Answers) -> None:
    answers.to[f"PATCH {RUN}"] = [(200, {})]

    api.end_run("backup_shop", "first")
    assert [asked.body for asked in answers.asked] == [{"state": "failed"}]
    with pytest.raises(AirflowApiError, match="404"):
        api.end_run("backup_shop", "second")


def test_a_dag_is_paused_and_unpaused(api: AirflowApi, answers: Answers) -> None:
    answers.to["PATCH /api/v2/dags/backup_shop"] = [(200, {})] * 2

    api.pause("backup_shop")
    api.pause("backup_shop", paused=False)
    assert [asked.body for asked in answers.asked] == [{"is_paused": True}, {"is_paused": False}]
    with pytest.raises(AirflowApiError, match="404"):
        api.pause("backup_none")


def test_a_run_is_waited_for_until_it_has_ended(api: AirflowApi, answers: Answers) -> None:
    states = ["queued", "running", "running", "failed", "success"]
    answers.to[f"GET {RUN}"] = [(200, {"state": state}) for state in states]
    seen: list[str] = []

    assert api.wait_for_run("backup_shop", "first", poll=0, on_poll=seen.append) == "failed"
    assert seen == states[:4]


def test_a_run_that_does_not_end_in_time_is_an_error(api: AirflowApi, answers: Answers) -> None:
    answers.to[f"GET {RUN}"] = [(200, {"state": "running"})]

    with pytest.raises(AirflowTimeoutError, match=r"run first of backup_shop is still running after 0\.01 s"):
        api.wait_for_run("backup_shop", "first", timeout=0.01, poll=0)


DAG = "GET /api/v2/dags/backup_shop"


def test_dags_are_those_of_all_pages(api: AirflowApi, answers: Answers) -> None:
    of = "GET /api/v2/dags?limit=100&offset={}&order_by=dag_id"
    answers.to[of.format(0)] = [(200, {"dags": [{"dag_id": f"a{number}"} for number in range(100)]})]
    answers.to[of.format(100)] = [(200, {"dags": [{"dag_id": "b"}]})]

    assert api.dag_ids() == [*(f"a{number}" for number in range(100)), "b"]


def test_a_dag_has_its_runs(api: AirflowApi, answers: Answers) -> None:
    answers.to[f"{DAG}/dagRuns?limit=100"] = [(200, {"dag_runs": [{"dag_run_id": "first"}, {"dag_run_id": "b"}]})]
    assert api.run_ids("backup_shop") == ["first", "b"]


def test_a_dag_is_waited_for_until_airflow_has_read_it(
    api: AirflowApi, answers: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_waiting(monkeypatch)
    unknown = (404, {"detail": "no such DAG"})
    answers.to[DAG] = [unknown, unknown, (200, {"dag_id": "backup_shop"})]

    api.wait_for_dag("backup_shop")
    assert len(answers.asked) == 3


@pytest.mark.parametrize(
    ("errors", "words"),
    [
        ([], "in 0 s."),
        (
            [{"filename": "/dags/backup.py", "stack_trace": "Traceback:\n  line 1\nNameError: shop"}],
            "in 0 s. /dags/backup.py: NameError: shop",
        ),
    ],
)
def test_a_dag_that_is_not_read_is_an_error_that_says_why(
    api: AirflowApi, answers: Answers, errors: list[dict[str, str]], words: str
) -> None:
    answers.to["GET /api/v2/importErrors"] = [(200, {"import_errors": errors})]

    with pytest.raises(AirflowTimeoutError) as caught:
        api.wait_for_dag("backup_shop", timeout=0)
    assert str(caught.value) == f"Airflow has not read the DAG backup_shop {words}"


def test_tasks_are_those_of_the_run(api: AirflowApi, answers: Answers) -> None:
    task = {"task_id": "backup", "map_index": -1, "state": None, "try_number": 0, "duration": None, "pool": "x"}
    answers.to[f"GET {RUN}/taskInstances?limit=100"] = [(200, {"task_instances": [task]})]

    assert api.tasks("backup_shop", "first") == [TaskInstance("backup", -1, None, 0, None)]


def test_what_a_task_passed_on_is_given_and_nothing_is_an_error(api: AirflowApi, answers: Answers) -> None:
    answers.to[f"GET {RUN}/taskInstances/backup/xcomEntries/return_value"] = [(200, {"value": {"commit": 3}})]

    assert api.xcom("backup_shop", "first", "backup") == {"commit": 3}
    with pytest.raises(AirflowApiError, match="404"):
        api.xcom("backup_shop", "first", "backup", "other")


LOG = f"GET {RUN}/taskInstances/backup/logs/2"


def log(answers: Answers, *pages: tuple[list[Any], str | None]) -> None:
    """Have a log of pages: what each holds, and the token of the next one."""
    at = "full_content=true"
    for content, token in pages:
        answers.to[f"{LOG}?{at}"] = [(200, {"content": content, "continuation_token": token})]
        at = f"token={token}"


def test_a_log_is_all_its_pages(api: AirflowApi, answers: Answers) -> None:
    log(answers, (["one"], "a"), (["two", "three"], "b"), (["four"], None))

    assert api.task_log("backup_shop", "first", "backup", 2) == "one\ntwo\nthree\nfour"


def test_a_log_ends_at_a_page_of_nothing(api: AirflowApi, answers: Answers) -> None:
    log(answers, (["one"], "a"), ([], "a"))

    assert api.task_log("backup_shop", "first", "backup", 2) == "one"
    assert len(answers.asked) == 2


def test_a_line_of_a_log_is_its_words_and_values_and_the_traceback(api: AirflowApi, answers: Answers) -> None:
    frames = [{"filename": "task.py", "lineno": 7, "name": "run"}]
    entry = {
        "timestamp": "2026-01-01T00:00:00Z",
        "level": "error",
        "event": "Task failed",
        "logger": "task",
        "lineno": 3,
        "archive": "shop",
        "empty": "",
        "error_detail": [{"exc_type": "ValueError", "exc_value": "no rows", "frames": frames}],
    }
    log(answers, ([entry], None))

    assert api.task_log("backup_shop", "first", "backup", 2).splitlines() == [
        "2026-01-01T00:00:00Z error Task failed archive=shop ",
        "  ValueError: no rows ",
        "    task.py:7 run",
    ]
