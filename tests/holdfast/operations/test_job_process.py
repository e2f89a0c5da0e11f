"""Starting Spark applications: found by path, told no secret in words that others see, and ended whole."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from holdfast.archive import Archive, locks
from holdfast.common.errors import HoldfastError
from holdfast.common.signing import ArchiveKeys, Signing
from holdfast.operations import job_process
from holdfast.storage import open_store
from locking import Owner
from tests.support.jobs.command import until

MakeProgram = Callable[[str, str], Path]


@pytest.fixture
def program(tmp_path: Path) -> MakeProgram:
    """Puts a shell script in a folder of programs; returns that folder."""

    def make(name: str, script: str) -> Path:
        folder = tmp_path / "programs"
        folder.mkdir(exist_ok=True)
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)
        return folder

    return make


def test_an_application_is_found_without_importing_it_or_named() -> None:
    for name in ("backup", "cluster_check", "sync"):
        assert job_process.find_application(name).name == f"{name}.py"
    with pytest.raises(HoldfastError, match="replication is missing"):
        job_process.find_application("replication")


def test_run_names_differ_and_fit_a_folder() -> None:
    names = {job_process.new_run_id("backup shop/../db") for _ in range(50)}
    assert len(names) == 50
    assert all(name.startswith("backup-shop-..-db.") and "/" not in name for name in names)
    assert job_process.new_run_id("../").startswith("run.")


def test_a_process_is_known_by_its_start_until_it_has_ended() -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    start = job_process.process_start(process.pid)
    assert start is not None
    assert start.isdecimal()
    process.kill()
    until(lambda: psutil.Process(process.pid).status() == psutil.STATUS_ZOMBIE, "the kill")
    assert job_process.process_start(process.pid) is None  # though nobody has waited for it
    process.communicate()
    assert job_process.process_start(process.pid) is None


def test_the_password_goes_by_environment_and_nowhere_else(tmp_path: Path) -> None:
    store = Archive.create(open_store(str(tmp_path)), name="shop").store
    with locks.acquire(store, "backup", sources=["shop"], owner=Owner(), purpose="test", wait=0) as held:
        made = job_process.job_environment("postgresql://me@here/shop", "s3cret", held, "source")
        assert [name for name, value in made.items() if "s3cret" in value] == ["PGPASSWORD"]
        assert made["HOLDFAST_SOURCE_URL"] == "postgresql://me@here/shop"
        assert "PGPASSWORD" not in job_process.job_environment("postgresql://me@here/shop", None, held, "target")


def test_where_the_archives_key_is_goes_by_environment(tmp_path: Path) -> None:
    keys = ArchiveKeys("file:/etc/key", Signing("env:SIGNS", ("ed25519:a", "file:/etc/signers")))
    made = job_process.job_environment(None, None, None, keys=keys)
    assert made["HOLDFAST_KEY"] == "file:/etc/key"
    assert made["HOLDFAST_SIGNING_KEY"] == "env:SIGNS"
    assert made["HOLDFAST_SIGNERS"] == "ed25519:a file:/etc/signers"
    assert "HOLDFAST_KEY" not in job_process.job_environment(None, None, None)


def test_a_job_without_a_database_is_told_of_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPASSWORD", "s3cret")
    store = Archive.create(open_store(str(tmp_path)), name="shop").store
    with locks.acquire(store, "truncation", owner=Owner(), purpose="test", wait=0) as held:
        made = job_process.job_environment(None, None, held)
    assert not {*job_process.URL_VARIABLES.values(), "PGPASSWORD"} & set(made)
    assert made["HOLDFAST_LOCKS"]


def java(version: str) -> str:
    return f"echo 'openjdk version \"{version}\" 2025' >&2"


def test_only_a_java_that_spark_runs_on_is_accepted(program: MakeProgram, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    for version in ("17.0.15", "21"):
        monkeypatch.setenv("PATH", str(program("java", java(version))))
        job_process.check_java()
    for version, found in (("1.8.0_392", "version 1"), ("11.0.2", "version 11"), ("25", "25")):
        monkeypatch.setenv("PATH", str(program("java", java(version))))
        with pytest.raises(HoldfastError, match=rf"needs Java 17 or 21 and found .*{found}.*apt-get install"):
            job_process.check_java()


def test_a_wrong_java_home_is_named_even_where_path_has_java(
    program: MakeProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    monkeypatch.setenv("PATH", str(program("java", java("17"))))
    with pytest.raises(HoldfastError, match=r"none was found at JAVA_HOME \(/nowhere\)"):
        job_process.check_java()


@pytest.fixture
def with_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_process, "check_java", lambda: None)
    monkeypatch.setattr(job_process, "LAST_WORDS_S", 0.2)


def submit(folder: Path, tmp_path: Path, **more: object) -> int:
    environment = {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}", "PGPASSWORD": "s3cret"}
    return job_process.submit("backup", ["--run", "r1"], environment, log=tmp_path / "log", **more)  # type: ignore[arg-type]


def test_the_exit_code_is_sparks_and_its_words_go_to_the_log(
    program: MakeProgram, tmp_path: Path, with_java: None
) -> None:
    folder = program("spark-submit", 'echo "$@"; echo warned >&2; exit 5')
    assert submit(folder, tmp_path) == 5
    said = (tmp_path / "log").read_text()
    assert "--run r1" in said
    assert "warned" in said
    assert "s3cret" not in said


def test_a_signal_is_a_negative_code(program: MakeProgram, tmp_path: Path, with_java: None) -> None:
    assert submit(program("spark-submit", "kill -9 $$"), tmp_path) == -9


def test_a_machine_without_spark_is_told_what_to_install(tmp_path: Path, with_java: None) -> None:
    with pytest.raises(HoldfastError, match="spark-submit was not found: install the 'spark' extra"):
        job_process.submit("backup", [], {"PATH": str(tmp_path)})


# A child that ignores SIGTERM, and one in a process group of its own, as Spark's Python daemon is.
_CHILDREN = """
sh -c 'trap "" TERM; while :; do sleep 0.1; done' &
echo $! >>{pids}
python3 -c 'import os, time; os.setpgid(0, 0); time.sleep(600)' &
echo $! >>{pids}
"""


@pytest.mark.slow
def test_nothing_is_left_of_a_job_that_is_interrupted(
    program: MakeProgram, tmp_path: Path, with_java: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_process, "POLITE_S", 0.5)
    pids = tmp_path / "pids"
    folder = program("spark-submit", f"{_CHILDREN.format(pids=pids)}\nwait")

    def interrupt() -> None:
        until(lambda: pids.exists() and len(pids.read_text().split()) == 2, "both children")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        submit(folder, tmp_path, on_tick=interrupt)
    assert [pid for pid in pids.read_text().split() if job_process.process_start(int(pid))] == []


def test_nothing_is_left_of_a_job_whose_java_was_killed(
    program: MakeProgram, tmp_path: Path, with_java: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_process, "POLITE_S", 0.5)
    pids = tmp_path / "pids"
    assert submit(program("spark-submit", f"{_CHILDREN.format(pids=pids)}\nkill -9 $$"), tmp_path) == -9
    assert [pid for pid in pids.read_text().split() if job_process.process_start(int(pid))] == []
