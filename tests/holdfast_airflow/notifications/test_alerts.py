"""Who is told when a task has failed: the notifiers of archives.yaml."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.common.errors import UsageError
from holdfast.config.archives_model import AlertConfig, ArchiveConfig
from holdfast_airflow.archives import archive_dag
from holdfast_airflow.notifications.alerts import notifiers
from tests.support.airflow.alerts import FileNotifier

FILE = {"path": "/alerts", "text": "{{ dag.dag_id }}"}


def with_alert(notifier: str, **arguments: Any) -> ArchiveConfig:
    return ArchiveConfig(url="/a", alerts=[AlertConfig(notifier=notifier, arguments=arguments)])


def test_each_dag_tells_them_beside_its_own_settings() -> None:
    archive = with_alert("tests.support.airflow.alerts.FileNotifier", **FILE)
    more: list[dict[str, Any]] = [{}, {"default_args": {"retries": 7}}]
    for settings in more:
        defaults = archive_dag("vacuum", "shop", archive, doc="", schedule_key="vacuum", **settings).default_args
        (told,) = defaults["on_failure_callback"]
        notifier = told.notifier
        assert isinstance(notifier, FileNotifier)
        assert (notifier.path, notifier.text) == ("/alerts", "{{ dag.dag_id }}")
        assert defaults["retries"] == (7 if settings else 0)
    assert notifiers(ArchiveConfig(url="/a")) == []


@pytest.mark.parametrize(
    ("notifier", "said"),
    [
        ("tests.support.airflow.alerts.MailNotifier", "there is no tests.support.airflow.alerts.MailNotifier here"),
        (
            "no.such.Notifier",
            r"there is no no.such.Notifier here \(ModuleNotFoundError: No module named 'no'\)",
        ),
        ("pathlib.Path", "pathlib.Path is no notifier of Airflow's"),
        ("tests.support.airflow.alerts.FileNotifier", r"does not take these arguments: .*missing .* 'path' and 'text'"),
    ],
)
def test_what_cannot_be_made_is_said(notifier: str, said: str) -> None:
    with pytest.raises(UsageError, match=f"alerts: .*{said}"):
        notifiers(with_alert(notifier))
