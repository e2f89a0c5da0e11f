"""Airflow's word on the owners of locks."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import replace

import pytest

from holdfast.archive.locks.owner_status import AirflowApi, OwnerState, Word
from holdfast.common.errors import UsageError
from locking import Owner
from tests.support.airflow.airflow_answers import AirflowAnswers, running_airflow_answers

RUN = Owner(scope="run", dag_id="nightly load", run_id="manual__2026-01-01T00:00:00+00:00")
TASK = replace(RUN, scope="task", task_id="back/up")
RUN_PATH = "nightly%20load/dagRuns/manual__2026-01-01T00%3A00%3A00%2B00%3A00"
TASK_PATH = f"{RUN_PATH}/taskInstances/back%2Fup"


@pytest.fixture
def answers() -> Iterator[AirflowAnswers]:
    with running_airflow_answers() as running:
        yield running


@pytest.fixture
def api(answers: AirflowAnswers) -> Iterator[AirflowApi]:
    client = AirflowApi(answers.url, token="the token")
    yield client
    client.close()


@pytest.mark.parametrize(
    ("state", "ended"),
    [("success", True), ("failed", True), ("running", False), ("queued", False), (None, False), ("new word", False)],
)
def test_a_run_has_finished_only_where_airflow_says_so(
    answers: AirflowAnswers, api: AirflowApi, state: str | None, ended: bool
) -> None:
    answers.states[RUN_PATH] = state
    assert Word(api).has_finished(RUN) is ended
    assert answers.asked == [RUN_PATH]
    assert answers.tokens == {"Bearer the token"}


@pytest.mark.parametrize("state", ["scheduled", "queued", "running", "deferred", "up_for_retry", "restarting", None])
def test_a_task_that_may_come_back_counts_as_alive(answers: AirflowAnswers, api: AirflowApi, state: str | None) -> None:
    answers.states[TASK_PATH] = state
    assert not Word(api).has_finished(TASK)
    assert answers.asked == [TASK_PATH]


@pytest.mark.parametrize("state", ["success", "failed", "skipped", "upstream_failed", "removed"])
def test_a_task_that_will_not_come_back_has_finished(answers: AirflowAnswers, api: AirflowApi, state: str) -> None:
    answers.states[TASK_PATH] = state
    assert Word(api).has_finished(TASK)


def test_one_of_several_mapped_tasks_is_asked_for_by_its_index(answers: AirflowAnswers, api: AirflowApi) -> None:
    answers.states = {f"{TASK_PATH}/3": "failed", TASK_PATH: "running"}
    assert Word(api).has_finished(replace(TASK, map_index=3))
    assert not Word(api).has_finished(replace(TASK, map_index=-1))


@pytest.mark.parametrize("status", [401, 403, 404, 500, 503])
def test_an_airflow_that_does_not_know_or_does_not_tell_means_alive(
    answers: AirflowAnswers, api: AirflowApi, status: int
) -> None:
    answers.states[RUN_PATH] = "success"
    answers.status = status
    assert not Word(api).has_finished(RUN)


def test_an_airflow_that_is_down_means_alive(caplog: pytest.LogCaptureFixture) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        api = AirflowApi(f"http://127.0.0.1:{taken.getsockname()[1]}", token="the token")
        assert not Word(api).has_finished(RUN)
        api.close()
    assert "could not be asked about dag nightly load" in caplog.text
    assert "the token" not in caplog.text


@pytest.mark.parametrize(
    "owner",
    [
        replace(RUN, scope="process"),
        replace(RUN, dag_id=None),
        replace(RUN, run_id=None),
        replace(TASK, task_id=None),
        Owner(),
    ],
)
def test_who_is_not_airflows_is_not_asked_for(answers: AirflowAnswers, api: AirflowApi, owner: Owner) -> None:
    assert not Word(api).has_finished(owner)
    assert answers.asked == []


@pytest.mark.parametrize("url", ["", "airflow.example", "ftp://airflow.example", "https://me:secret@airflow.example"])
def test_an_address_that_is_none_or_tells_a_secret_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="http or https URL") as refused:
        AirflowApi(url, token="t")
    assert "secret" not in str(refused.value)


def test_the_token_comes_from_the_environment(answers: AirflowAnswers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AIRFLOW_CLI_TOKEN", raising=False)
    with pytest.raises(UsageError, match="set AIRFLOW_CLI_TOKEN"):
        AirflowApi(answers.url)
    monkeypatch.setenv("AIRFLOW_CLI_TOKEN", "from outside")
    api = AirflowApi(answers.url)
    assert api.run_state("d", "r") is None
    api.close()
    assert answers.tokens == {"Bearer from outside"}


@pytest.mark.parametrize(("state", "paused", "found"), [("running", True, True), ("running", False, False)])
def test_a_run_at_work_whose_dag_is_paused_is_said_to_be(
    answers: AirflowAnswers, api: AirflowApi, state: str, paused: bool, found: bool
) -> None:
    answers.states[RUN_PATH], answers.paused["nightly%20load"] = state, paused
    assert Word(api).state_of(RUN).is_paused is found


def test_only_a_run_at_work_is_asked_whether_its_dag_is_paused(answers: AirflowAnswers, api: AirflowApi) -> None:
    answers.states = {RUN_PATH: "success", TASK_PATH: "running"}
    assert not Word(api).state_of(RUN).is_paused
    assert not Word(api).state_of(TASK).is_paused
    assert answers.asked == [RUN_PATH, TASK_PATH]


def test_a_dag_that_cannot_be_asked_for_changes_nothing_of_the_rest(answers: AirflowAnswers, api: AirflowApi) -> None:
    answers.states[RUN_PATH] = "running"  # and the DAG is unknown
    assert Word(api).state_of(RUN) == OwnerState("running")
