"""Who is told when a task has failed, and how often: the notifiers of archives.yaml."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG, BaseOperator

from holdfast.common.errors import UsageError
from holdfast.config.archives_model import AlertConfig, ArchiveConfig
from holdfast.objectives import NEWEST_DRILL_FAILED, Objective
from holdfast_airflow.archives import archive_dag
from holdfast_airflow.exceptions import JobFailed, JobRefused, ObjectivesMissed
from holdfast_airflow.notifications import alert_memory
from holdfast_airflow.notifications.alerts import ArchiveAlerts, notifiers
from holdfast_airflow.operators.check_objectives import by_reason
from tests.support.airflow.alerts import FileNotifier
from tests.support.airflow.variables import Variables

FILE = {"path": "/alerts", "text": "{{ dag.dag_id }}"}
NOTIFIER = "tests.support.airflow.alerts.FileNotifier"


def with_alert(notifier: str, arguments: dict[str, str], sources: tuple[str, ...] = ()) -> ArchiveConfig:
    return ArchiveConfig.model_validate(
        {
            "url": "s3://backups/shop",
            "alerts": [{"notifier": notifier, "arguments": arguments}],
            "sources": {name: {"connection": name} for name in sources},
        }
    )


class Told:
    """Callbacks of an archive whose notifier writes into a file, which is read."""

    def __init__(self, path: Path, *sources: str) -> None:
        text = "{{ holdfast.title }} | {{ exception }}"
        self.alerts = ArchiveAlerts("shop", [with_alert(NOTIFIER, {"path": str(path), "text": text}, sources)])
        self.alerts.memory._sleep = lambda _: None
        self.path = path

    def after(self, task_id: str, error: BaseException | None = None, *, source: str | None = None) -> list[str]:
        """Return the lines on the end of a task: of a failure, or of a success."""
        with DAG(f"{task_id}_shop") as dag:
            task = BaseOperator(task_id=task_id)
        task.source = source
        instance = SimpleNamespace(dag_id=dag.dag_id, run_id="r1", task_id=task_id, map_index=-1)
        context: Any = {"dag": dag, "ti": instance, "task": task}
        if error is None:
            self.alerts.succeeded(context)
        else:
            context["exception"] = error
            self.alerts.failed(context)
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        self.path.unlink(missing_ok=True)
        return lines


@pytest.fixture(autouse=True)
def variables(monkeypatch: pytest.MonkeyPatch) -> Variables:
    made = Variables()
    monkeypatch.setattr(alert_memory, "Variable", made)
    return made


def test_each_dag_tells_them_beside_its_own_settings() -> None:
    archive = with_alert(NOTIFIER, FILE)
    more: list[dict[str, Any]] = [{}, {"default_args": {"retries": 7}}]
    for settings in more:
        defaults = archive_dag("vacuum", "shop", archive, doc="", schedule_key="vacuum", **settings).default_args
        alerts = defaults["on_failure_callback"].__self__
        assert defaults["on_success_callback"].__self__ is alerts
        (notifier,) = alerts.channels
        assert isinstance(notifier, FileNotifier)
        assert (notifier.path, notifier.text) == ("/alerts", "{{ dag.dag_id }}")
        assert defaults["retries"] == (7 if settings else 0)
    assert ArchiveAlerts("shop", [ArchiveConfig(url="/a")]).callbacks() == {}


def test_a_notifier_that_several_archives_name_is_told_once() -> None:
    first, second = with_alert(NOTIFIER, FILE), with_alert(NOTIFIER, FILE | {"text": "x"})
    assert len(notifiers([first, first, second])) == 2


def test_a_failure_is_told_once_and_when_it_is_over(tmp_path: Path, variables: Variables) -> None:
    told = Told(tmp_path / "told")
    assert told.after("backup") == []
    failed = ["backup_shop: backup has failed (exit code 1) | held by process 7"]
    assert told.after("backup", JobFailed("held by process 7")) == failed
    assert told.after("backup", JobFailed("held by process 8")) == []
    assert list(variables.values) == ["holdfast_alerts_shop"]
    assert told.after("backup") == ["backup_shop: backup works again | no longer: held by process 8"]
    assert told.after("backup") == []


def test_a_failed_drill_is_one_alert_though_two_objectives_are_missed_by_it(tmp_path: Path) -> None:
    told, why = Told(tmp_path / "told", "shop_db", "crm"), "an assertion does not hold"
    assert len(told.after("drill", JobRefused(why, 4), source="shop_db")) == 1
    stands = f"{NEWEST_DRILL_FAILED}{why}"
    by_drill = [Objective("shop_db", name, "7d", is_met=False, stands=stands) for name in ("rto", "drill_within")]
    assert told.after("judge", ObjectivesMissed(by_reason(by_drill))) == []
    late = Objective("crm", "rpo", "1h", is_met=False, stands="2 hours ago")
    assert told.after("judge", ObjectivesMissed(by_reason([*by_drill, late]))) == [
        "judge_shop: judge has failed (exit code 1) | shop_db: rto 7d and drill_within 7d are missed: the newest drill "
        "failed: an assertion does not hold; crm: rpo 1h is missed: 2 hours ago"
    ]
    later = Objective("crm", "rpo", "1h", is_met=False, stands="3 hours ago")
    assert told.after("judge", ObjectivesMissed(by_reason([*by_drill, later]))) == []


@pytest.mark.parametrize(("said", "alerts"), [("s3://backups/shop does not answer", 1), ("the slot is gone", 2)])
def test_one_sentence_about_two_sources_is_two_causes_unless_it_is_about_the_archive(
    tmp_path: Path, said: str, alerts: int
) -> None:
    told = Told(tmp_path / "told", "shop_db", "crm")
    lines = [line for source in ("shop_db", "crm") for line in told.after(source, JobFailed(said), source=source)]
    assert len(lines) == alerts


def test_errors_that_are_not_ours_are_causes_of_each_task(tmp_path: Path) -> None:
    told = Told(tmp_path / "told")
    assert [len(told.after(task, RuntimeError("x"))) for task in ("backup", "vacuum", "backup")] == [1, 1, 0]


def test_an_alert_that_could_not_be_sent_is_sent_the_next_time(tmp_path: Path) -> None:
    told = Told(tmp_path / "told")
    told.path.mkdir()
    with pytest.raises(ExceptionGroup):
        told.after("backup", JobFailed("x"))
    told.path.rmdir()
    assert len(told.after("backup", JobFailed("x"))) == 1
    told.path.mkdir()
    with pytest.raises(ExceptionGroup):
        told.after("backup")
    told.path.rmdir()
    assert told.after("backup") == ["backup_shop: backup works again | no longer: x"]


@pytest.mark.parametrize(
    ("notifier", "said"),
    [
        ("tests.support.airflow.alerts.MailNotifier", "there is no tests.support.airflow.alerts.MailNotifier here"),
        (
            "no.such.Notifier",
            r"there is no no.such.Notifier here \(ModuleNotFoundError: No module named 'no'\)",
        ),
        ("pathlib.Path", "pathlib.Path is no notifier of Airflow's"),
        (NOTIFIER, r"does not take these arguments: .*missing .* 'path' and 'text'"),
    ],
)
def test_what_cannot_be_made_is_said(notifier: str, said: str) -> None:
    with pytest.raises(UsageError, match=f"alerts: .*{said}"):
        notifiers([ArchiveConfig(url="/a", alerts=[AlertConfig(notifier=notifier)])])
