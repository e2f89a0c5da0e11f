"""The standalone Airflow of the demo: it starts, runs DAGs with our locks, and leaves nothing behind."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import psutil
import pytest

import locking
from demo.airflow import AirflowStandalone, AirflowStartError
from demo.airflow_api import AirflowApiError
from demo.supervisor import descendants
from holdfast.errors import UsageError
from holdfast.storage import ObjectStore, open_store
from locking import Owner, RWLock

ROOT = Path(__file__).parents[2]
SUPERVISOR = ROOT / "demo" / "supervisor.py"

LOCKED_DAG = '''
"""A report that nobody else may write at the same time."""
from airflow.sdk import DAG, task
from holdfast_airflow.operators import AcquireLock, ReleaseLock

@task
def look(fail):
    import locking
    from holdfast.storage import open_store
    found = [[i.resource, i.mode, i.owner.scope, i.owner.run_id] for i in locking.inspect(open_store({url!r}))]
    if fail:
        raise RuntimeError("asked to fail")
    return found

with DAG("report", schedule=None, params={{"fail": False}}) as dag:
    lock = AcquireLock(task_id="lock", archive={url!r}, resource="report", purpose="the report")
    unlock = ReleaseLock(task_id="unlock", acquire="lock").as_teardown(setups=lock)
    lock >> look(dag.param("fail")) >> unlock
'''


KEPT_DAG = '''
"""Work that goes on until its lock was renewed, and then until it may end."""
from datetime import timedelta
from pathlib import Path
from airflow.sdk import DAG, task
from holdfast_airflow.operators import archive_lock

@task
def work(may_end):
    import time
    def modified():
        (path,) = Path({url!r}, "locks", "ledger").glob("WRIT.*")
        return path.stat().st_mtime_ns
    taken = modified()
    while modified() == taken:
        time.sleep(0.1)
    while not Path(may_end).exists():
        time.sleep(0.1)

with DAG("ledger", schedule=None, params={{"may_end": "/"}}) as dag:
    with archive_lock("ledger", archive={url!r}, resource="ledger", lease=timedelta(seconds=60)):
        work(dag.param("may_end"))
'''

REAPER_DAG = '''
"""Ends what is over."""
from airflow.sdk import DAG
from holdfast_airflow.operators import ReapLocks

with DAG("reaper", schedule=None):
    ReapLocks(task_id="reap", archive={url!r})
'''

TWO_SOURCES = "archives: {{big: {{url: '{url}', sources: {{a: {{connection: a}}, b: {{connection: b}}}}}}}}"


def wait_until(condition: Callable[[], bool], seconds: float = 30.0) -> bool:
    """Whether a condition becomes true in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def is_running(pid: int) -> bool:
    return bool(psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)


def supervised(script: str, tmp_path: Path) -> tuple[subprocess.Popen[bytes], list[int]]:
    """Start a shell script under the supervisor; it writes ids of its processes into `pids`, one a line."""
    process = subprocess.Popen(
        [sys.executable, "-P", str(SUPERVISOR), "/bin/sh", "-c", script],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        start_new_session=True,
    )
    wanted = script.count(">> pids")
    pids = tmp_path / "pids"
    assert wait_until(lambda: pids.exists() and len(pids.read_text().split()) == wanted)
    return process, [int(pid) for pid in pids.read_text().split()]


# One that moved to a session of its own, whose parent has ended: neither group nor parent leads to it.
STRAY = "setsid sh -c 'echo $$ >> pids; exec sleep 600' & "


def end(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    process.stdin.close()


@pytest.mark.parametrize("how", ["close", "term", "int", "kill the command"])
def test_supervisor_ends_everything_however_it_is_told(tmp_path: Path, how: str) -> None:
    process, pids = supervised(f"echo $$ > command; {STRAY} ({STRAY}) ; echo $$ >> pids; exec sleep 600", tmp_path)
    if how == "kill the command":
        os.kill(int((tmp_path / "command").read_text()), signal.SIGKILL)
    elif how != "close":
        process.send_signal({"term": signal.SIGTERM, "int": signal.SIGINT}[how])
    if how == "close":
        end(process)
    code = process.wait(20)
    assert len(pids) == 3
    assert not any(psutil.pid_exists(pid) for pid in pids)
    assert code == 128 + (9 if how == "kill the command" else 15)
    end(process)


def test_supervisor_ends_everything_when_whoever_started_it_is_killed(tmp_path: Path) -> None:
    code = (
        "import subprocess, sys, time\n"
        f"p = subprocess.Popen([sys.executable, '-P', {str(SUPERVISOR)!r}, 'sleep', '600'], stdin=subprocess.PIPE)\n"
        "print(p.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    starter = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert starter.stdout is not None
    with starter.stdout:
        supervisor = int(starter.stdout.readline())
    assert wait_until(lambda: len(descendants(supervisor)) == 1)
    (sleeper,) = descendants(supervisor)
    starter.kill()
    starter.wait()
    assert wait_until(lambda: not is_running(supervisor) and not is_running(sleeper))


def test_supervisor_forces_those_that_ignore_the_polite_signal_at_the_second_one(tmp_path: Path) -> None:
    process, pids = supervised("trap '' TERM; echo $$ >> pids; while true; do sleep 1; done", tmp_path)
    began = time.monotonic()
    process.terminate()
    time.sleep(0.5)
    process.terminate()
    process.wait(20)
    assert time.monotonic() - began < 8  # the polite wait alone is longer
    assert not psutil.pid_exists(pids[0])
    end(process)


def test_supervisor_ends_with_its_command(tmp_path: Path) -> None:
    process, _ = supervised("echo $$ >> pids; exit 3", tmp_path)
    assert process.wait(20) == 3
    end(process)


@pytest.mark.slow
def test_supervisor_that_is_let_go_outlives_its_starter_until_a_signal(tmp_path: Path) -> None:
    process, pids = supervised("echo $$ >> pids; exec sleep 600", tmp_path)
    assert process.stdin is not None
    process.stdin.write(b"d")
    end(process)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(1)
    assert is_running(pids[0])
    process.terminate()
    process.wait(20)
    assert not psutil.pid_exists(pids[0])


def test_taken_port_is_refused_with_a_sentence(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        airflow = AirflowStandalone(home=tmp_path, dags=tmp_path, plugins=tmp_path, port=port)
        with pytest.raises(UsageError, match=f"port {port} is taken"):
            airflow.start()
    airflow.stop()


@pytest.mark.slow
def test_airflow_that_ends_while_starting_says_why(tmp_path: Path) -> None:
    airflow = AirflowStandalone(
        home=tmp_path, dags=tmp_path, plugins=tmp_path, env={"AIRFLOW__CORE__EXECUTOR": "NoSuchExecutor"}
    )
    with pytest.raises(AirflowStartError, match=r"ended while starting; its log ends with:\n(.|\n)*NoSuchExecutor"):
        airflow.__enter__()
    assert airflow.pid is None


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> ObjectStore:
    return open_store(str(tmp_path_factory.mktemp("archive")))


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory, archive: ObjectStore) -> Iterator[AirflowStandalone]:
    """A running Airflow with one DAG."""
    folder = tmp_path_factory.mktemp("airflow")
    (folder / "dags").mkdir()
    for name, text in {"report": LOCKED_DAG, "ledger": KEPT_DAG, "reaper": REAPER_DAG}.items():
        (folder / "dags" / f"{name}.py").write_text(text.format(url=archive.url))
    shutil.copy(ROOT / "dags" / "backup.py", folder / "dags")
    (folder / "archives.yaml").write_text(TWO_SOURCES.format(url=archive.url))
    with AirflowStandalone(
        home=folder / "home",
        dags=folder / "dags",
        plugins=ROOT / "plugins",
        env={
            "HOLDFAST_ARCHIVES": str(folder / "archives.yaml"),
            "AIRFLOW_CONN_SPARK_DEFAULT": '{"conn_type": "spark", "host": "local[1]"}',
        },
    ) as running:
        for name in ("report", "ledger", "reaper"):
            running.api.wait_for_dag(name)
        yield running


@pytest.mark.service
def test_lock_of_a_run_is_held_over_its_tasks_and_released_at_the_end(
    airflow: AirflowStandalone, archive: ObjectStore
) -> None:
    run_id = airflow.api.trigger("report")
    assert airflow.api.wait_for_run("report", run_id, timeout=120) == "success"
    assert airflow.api.xcom("report", run_id, "look") == [["report", "W", "run", run_id]]
    assert {task.task_id: task.state for task in airflow.api.tasks("report", run_id)} == {
        "lock": "success",
        "look": "success",
        "unlock": "success",
    }
    assert [info for info in locking.inspect(archive) if info.state != "dead"] == []


@pytest.mark.service
def test_lock_is_released_when_the_work_fails(airflow: AirflowStandalone, archive: ObjectStore) -> None:
    run_id = airflow.api.trigger("report", {"fail": True})
    assert airflow.api.wait_for_run("report", run_id, timeout=120) == "failed"
    states = {task.task_id: task.state for task in airflow.api.tasks("report", run_id)}
    assert states == {"lock": "success", "look": "failed", "unlock": "success"}
    assert "RuntimeError: asked to fail" in airflow.api.task_log("report", run_id, "look")
    assert [info for info in locking.inspect(archive) if info.state != "dead"] == []


@pytest.mark.service
def test_waiting_for_a_lock_is_deferred_until_it_is_free(airflow: AirflowStandalone, archive: ObjectStore) -> None:
    def state() -> str | None:
        return next((task.state for task in airflow.api.tasks("report", run_id) if task.task_id == "lock"), None)

    with RWLock(archive, "report").write(purpose="a person reads it"):
        run_id = airflow.api.trigger("report")
        assert wait_until(lambda: state() == "deferred", 90)
    assert airflow.api.wait_for_run("report", run_id, timeout=120) == "success"
    assert "a person reads it" in airflow.api.task_log("report", run_id, "lock")


@pytest.mark.service
def test_lock_of_a_block_is_renewed_by_a_trigger_while_the_block_runs(
    airflow: AirflowStandalone, archive: ObjectStore
) -> None:
    run_id = airflow.api.trigger("ledger")
    assert airflow.api.wait_for_run("ledger", run_id, timeout=120) == "success"
    assert {task.task_id: task.state for task in airflow.api.tasks("ledger", run_id)} == {
        "acquire_ledger": "success",
        "keep_ledger": "success",
        "work": "success",
        "release_ledger": "success",
    }
    assert "the lock was given back" in airflow.api.task_log("ledger", run_id, "keep_ledger")
    assert [info for info in locking.inspect(archive) if info.state != "dead"] == []


@pytest.mark.service
def test_lock_of_a_run_that_is_ended_by_hand_is_given_back(
    airflow: AirflowStandalone, archive: ObjectStore, tmp_path: Path
) -> None:
    def states() -> dict[str, str | None]:
        return {task.task_id: task.state for task in airflow.api.tasks("ledger", run_id)}

    run_id = airflow.api.trigger("ledger", {"may_end": str(tmp_path / "never")})
    assert wait_until(lambda: states().get("keep_ledger") == "deferred" and states().get("work") == "running", 90)
    airflow.api.end_run("ledger", run_id)
    assert airflow.api.wait_for_run("ledger", run_id, timeout=120) == "failed"
    assert states() == {
        "acquire_ledger": "success",
        "keep_ledger": "success",
        "work": "failed",
        "release_ledger": "success",
    }
    assert [info for info in locking.inspect(archive) if info.state != "dead"] == []


@pytest.mark.service
def test_reaper_asks_airflow_who_has_finished(airflow: AirflowStandalone, archive: ObjectStore) -> None:
    ended = airflow.api.trigger("report")
    assert airflow.api.wait_for_run("report", ended, timeout=120) == "success"
    leases = {}
    for resource, run_id in {"of an ended run": ended, "of a run nobody knows": "no such run"}.items():
        owner = Owner(scope="run", dag_id="report", run_id=run_id, task_id="lock", map_index=-1)
        name = resource.replace(" ", "-")
        leases[resource] = RWLock(archive, name, owner=owner).write(wait=0, renew=False)
        path = Path(archive.url) / f"locks/{name}/WRIT.{leases[resource].txn}"
        os.utime(path, (time.time() - 125,) * 2)  # of a lease of 120 s, with a grace of 60 s
    reaper = airflow.api.trigger("reaper")
    assert airflow.api.wait_for_run("reaper", reaper, timeout=120) == "success"
    found = airflow.api.xcom("reaper", reaper, "reap")
    reasons = {each["txn"]: each["reason"] for each in found}
    left = leases["of a run nobody knows"]
    assert reasons[leases["of an ended run"].txn] == "its lease is over and its owner has finished"
    # On a machine so slow that its grace is over meanwhile, it goes for that.
    assert reasons.get(left.txn) in (None, "its lease and grace are over")
    left.release()


@pytest.mark.service
def test_backup_of_one_source_leaves_the_others_alone_and_says_what_is_missing(airflow: AirflowStandalone) -> None:
    run_id = airflow.api.trigger("backup_big", {"source": "b"})
    assert airflow.api.wait_for_run("backup_big", run_id, timeout=120) == "failed"
    states = {task.task_id: task.state for task in airflow.api.tasks("backup_big", run_id)}
    assert states == {"choose_sources": "success", "backup_a": "skipped", "backup_b": "failed"}
    log = airflow.api.task_log("backup_big", run_id, "backup_b")
    assert "JobRefused: there is no Airflow connection 'b': make it under Admin > Connections" in log


@pytest.mark.service
def test_nobody_gets_in_without_the_password(airflow: AirflowStandalone) -> None:
    stranger = type(airflow.api)(url=airflow.url, username=airflow.username, password="guess")
    with pytest.raises(AirflowApiError, match="401"):
        stranger.log_in()
    with pytest.raises(AirflowApiError, match="401"):
        stranger.dag_ids()
    stranger.close()


@pytest.mark.service
def test_stop_leaves_no_process_even_with_a_task_running(airflow: AirflowStandalone, archive: ObjectStore) -> None:
    with RWLock(archive, "report").write():
        airflow.api.trigger("report")
        supervisor = airflow.pid
        assert supervisor is not None
        below = descendants(supervisor)
        assert len(below) > 5
        began = time.monotonic()
        airflow.stop()
    assert timedelta(seconds=time.monotonic() - began) < timedelta(seconds=30)
    assert not any(psutil.pid_exists(pid) for pid in {*below, supervisor})
    assert airflow.pid is None
