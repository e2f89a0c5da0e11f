"""What a failure says to whoever is told of it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG, BaseOperator

from holdfast_airflow.exceptions import JobFailed, JobRefused, LockWaitExpired
from holdfast_airflow.notifications import HoldfastNotifier
from holdfast_airflow.notifications.message import MISSED, FailureMessage
from holdfast_airflow.operators import VerifyOperator
from tests.support.airflow.alerts import FileNotifier


def context(error: object, *, archive: str | None = "shop", **more: Any) -> dict[str, Any]:
    """Return the context in which Airflow calls a notifier."""
    instance = SimpleNamespace(dag_id="backup_shop", run_id="r1", task_id="back_up", **more)
    task = SimpleNamespace(archive=archive) if archive else SimpleNamespace()
    return {"ti": instance, "task": task, "exception": error}


def test_a_failure_says_what_to_do_and_where_to_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://airflow.example/team")
    monkeypatch.setenv("AIRFLOW__HOLDFAST__RUNBOOKS_URL", "https://wiki.example/runbooks/")
    error = LockWaitExpired("ingest-shop is held for writing by process 7", 3)
    message = FailureMessage.of(context(error, log_url="https://airflow.example/team/log"))
    assert message.text == str(message)
    assert message.text.splitlines() == [
        "backup_shop: back_up has failed (exit code 3)",
        "ingest-shop is held for writing by process 7",
        "Runbook: https://wiki.example/runbooks/a-lock-is-held.md",
        "Archive: https://airflow.example/team/holdfast/?archive=shop",
        "Log: https://airflow.example/team/log",
    ]


def test_of_a_failure_that_is_not_ours_there_is_no_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AIRFLOW__API__BASE_URL", raising=False)
    message = FailureMessage.of(context(KeyError("x"), archive=None))
    assert (message.exit_code, message.archive, message.log) == (None, None, "")
    assert message.text.splitlines() == [
        "backup_shop: back_up has failed",
        message.sentence,
        "Runbook: docs/runbooks/backup-failed.md",
        "Archive: /holdfast/",
    ]
    assert "x" in message.sentence


@pytest.mark.parametrize(("error", "sentence"), [("not done in 1h", "not done in 1h"), (None, "see its log")])
def test_words_stand_in_where_airflow_has_no_exception(error: str | None, sentence: str) -> None:
    assert FailureMessage.of(context(error)).sentence == sentence


def test_names_of_others_make_neither_lines_nor_markup() -> None:
    error = JobFailed("table <b>x\n</b> is gone")
    message = FailureMessage.of(context(error, archive="s3://b/<i>"))
    assert len(message.text.splitlines()) == 4
    assert "<i>" not in message.html
    assert "table &lt;b&gt;x\\n&lt;/b&gt; is gone" in message.html


def test_only_addresses_of_the_web_are_links_in_mails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://airflow.example")
    html = FailureMessage.of(context(JobFailed("x"))).html
    assert '<a href="https://airflow.example/holdfast/?archive=shop">' in html
    assert "Runbook: docs/runbooks/backup-failed.md" in html


def test_what_is_over_is_said_beside_what_goes_on_or_alone() -> None:
    goes_on = FailureMessage.of(context(JobFailed("b")), over=["a"])
    assert (goes_on.title, goes_on.sentence) == ("backup_shop: back_up has failed (exit code 1)", "b; no longer: a")
    over = FailureMessage.of(context(None), over=["a", "b"])
    assert (over.title, over.sentence) == ("backup_shop: back_up works again", "no longer: a; no longer: b")
    assert (over.is_over, over.runbook) == (True, "")


def test_in_a_dag_of_ones_own_the_operator_names_the_runbook() -> None:
    words = context(JobFailed("x"))
    words["ti"].dag_id = "nightly"
    words["task"] = VerifyOperator(task_id="look", archive="shop")
    assert FailureMessage.of(words).runbook.endswith("/damage.md")


def test_a_deadline_is_missed_and_no_task_has_failed() -> None:
    assert FailureMessage.of(context("late", state=MISSED)).title == "backup_shop: back_up was missed"


@pytest.fixture
def failed() -> dict[str, Any]:
    """The context of a task that has failed."""
    with DAG("nightly") as dag:
        task = BaseOperator(task_id="load")
    instance = SimpleNamespace(dag_id="nightly", run_id="r1", task_id="load")
    return {"dag": dag, "ti": instance, "task": task, "exception": JobRefused("it would lose data", 5)}


def test_templates_of_a_channels_notifier_have_the_words(tmp_path: Path, failed: dict[str, Any]) -> None:
    text = "{{ holdfast.title }}|{{ holdfast.sentence }}|{{ holdfast.exit_code }}|{{ ti.task_id }}"
    channel = FileNotifier(path=str(tmp_path / "told"), text=text)
    HoldfastNotifier(channel)(failed)
    said = "nightly: load has failed (exit code 5)|it would lose data|5|load\n"
    assert (tmp_path / "told").read_text() == said


def test_without_a_channel_the_text_is_logged(failed: dict[str, Any], caplog: pytest.LogCaptureFixture) -> None:
    HoldfastNotifier()(failed)
    assert caplog.messages[:2] == ["nightly: load has failed (exit code 5)", "it would lose data"]
