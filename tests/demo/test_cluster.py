"""The story of the containers, without containers: what it asks, and what it says where there are none."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from demo import cluster
from demo.cluster import ClusterStory
from demo.screen import Screen
from demo.story import DemoFailedError
from holdfast.common.free_ports import free_port


def test_without_a_cluster_it_says_what_starts_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cluster, "SECRETS", tmp_path / ".env")
    assert cluster.main() == 2
    (tmp_path / ".env").write_text("AIRFLOW_ADMIN_PASSWORD=secret\n")
    monkeypatch.setenv("AIRFLOW_PORT", str(free_port()))
    assert cluster.main() == 2
    said = capsys.readouterr().out
    assert "there is no cluster: 'make cluster-up' starts one" in said
    assert "nobody answers at http://127.0.0.1:" in said
    assert "secret" not in said


class Api:
    """Stands for Airflow: a run goes through the states that it is given."""

    def __init__(self, *states: str, summary: dict[str, Any] | None = None) -> None:
        self.states = list(states)
        self.summary = summary
        self.triggered: list[tuple[str, dict[str, Any]]] = []

    def wait_for_dag(self, dag_id: str) -> None:
        pass

    def trigger(self, dag_id: str, conf: dict[str, Any]) -> str:
        self.triggered.append((dag_id, conf))
        return "run"

    def state(self, dag_id: str, run_id: str) -> str:
        return self.states.pop(0)

    def tasks(self, dag_id: str, run_id: str) -> list[SimpleNamespace]:
        return [SimpleNamespace(task_id="backup", state="failed", try_number=1, map_index=-1)]

    def task_log(self, *_: Any, map_index: int) -> str:
        return "JobFailed: the source is away"

    def xcom(self, dag_id: str, run_id: str, task_id: str) -> dict[str, Any]:
        assert self.summary is not None
        return self.summary


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("demo.cluster.time.sleep", lambda seconds: None)


def story(api: Api) -> ClusterStory:
    return ClusterStory(Screen(), api)  # type: ignore[arg-type]


@pytest.mark.parametrize(("replicas", "held"), [(["far", "near"], True), (["near"], False)])
def test_a_backup_holds_where_as_many_replicas_have_it_as_it_needs(replicas: list[str], held: bool) -> None:
    summary = {"rows": 10, "bytes": 100, "quorum": {"size": 2, "replicas": replicas}}
    api = Api("queued", "running", "success", summary=summary)
    told = story(api)
    told.back_up_through("a full backup", "full", lambda: None)
    assert api.triggered == [("backup_shop", {"kind": "full"})]
    assert [line.held for line in told.lines] == [held]


def test_a_run_that_fails_is_quoted() -> None:
    with pytest.raises(DemoFailedError, match=r"backup_shop failed:\nJobFailed: the source is away"):
        story(Api("running", "failed")).back_up_through("a full backup", "full", lambda: None)


def test_compose_that_fails_is_quoted(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(words: list[Any], **_: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(words, 1, "", "no such service: load")

    monkeypatch.setattr(subprocess, "run", run)
    works: list[Callable[[], object]] = [story(Api()).mark_and_make_a_mistake]
    for work in works:
        with pytest.raises(DemoFailedError, match="pause load failed: no such service: load"):
            work()
