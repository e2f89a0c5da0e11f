"""`holdfast protect`: what it asks of its backups, and what ends it before anything is done; whole ones are in
tests/sparkjobs/restore/test_protect.py.
"""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from holdfast.operations.archive_context import ArchiveContext
from holdfast.operations.requests.base import Request
from holdfast.storage import ObjectStore
from tests.support.jobs.command import RunCommand


@pytest.fixture
def done(store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What is done, in order: the arguments of the jobs, which are not run, and the names of marks."""
    given: list[list[str]] = []

    def run_job(archive: ArchiveContext, request: Request, **more: Any) -> dict[str, Any]:
        given.append(request.to_arguments())
        return {"commit": 1, "kind": "changes", "rows": 0, "tables": 0, "bytes": 0, "restorable_to": "now"}

    def mark(url: str, source: str, name: str) -> dict[str, Any]:
        given.append([name])
        return {"mark": name, "source": source, "position": "0/1", "at": "now", "schema_note": ""}

    monkeypatch.setattr("holdfast.cli.backup.run_job", run_job)
    monkeypatch.setattr("holdfast.cli.protect.mark_now", mark)
    (tmp_path / "archives.yaml").write_text(
        f"archives: {{shop: {{url: {store.url}, sources: {{db: {{url: 'postgresql://me@here/shop', connections: 3, "
        "bandwidth: 20 kB, exclude: ['tmp.*'], restart_stuck_stream: true}}}}"
    )
    monkeypatch.setenv("HOLDFAST_ARCHIVES", str(tmp_path / "archives.yaml"))
    return given


def test_its_backups_keep_to_the_configuration(holdfast: RunCommand, done: list[list[str]]) -> None:
    ended = holdfast("protect", "shop", "--json", "--", "true")
    assert (ended.code, ended.value["exit_code"]) == (0, 0)
    first, *others = done
    assert others == [["before true"], first, ["after true"], first]
    assert first[:4] == ["--source", "db", "--kind", "changes"]
    for limits in (["--exclude", "tmp.*"], ["--connections", "3"], ["--bandwidth", "20 kB"]):
        assert " ".join(limits) in " ".join(first)
    assert "--restart-stream stuck" in " ".join(first)


@pytest.mark.parametrize("words", [("--name", "x" * 100, "--", "true"), ("--", "no-such-command"), ()])
def test_a_mistake_ends_it_before_anything_is_done(
    holdfast: RunCommand, done: list[list[str]], words: tuple[str, ...]
) -> None:
    assert (holdfast("protect", "shop", *words).code, done) == (2, [])


@pytest.mark.usefixtures("done")
def test_a_signal_that_comes_while_the_command_is_started_reaches_it(
    holdfast: RunCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    popen = subprocess.Popen

    def start(command: list[str], **more: Any) -> subprocess.Popen[bytes]:
        os.kill(os.getpid(), signal.SIGTERM)
        return popen(command, **more)

    monkeypatch.setattr("holdfast.cli.protect.subprocess.Popen", start)
    ended = holdfast("protect", "shop", "--json", "--", "sleep", "600")
    assert (ended.code, ended.value["after"]["mark"]) == (143, "after sleep")
