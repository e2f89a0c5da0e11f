"""Whatever fails while one tidies up, what failed first is what is told: of the helper, and of each who tidies up."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.archive.scan import engine
from holdfast.common.cleanup import clean_up, cleanup
from holdfast.operations import job_process
from holdfast.postgresql.connection.server import PostgresServer
from holdfast.replication.log.store import CoordinationStore
from holdfast_airflow.operators.job import ArchiveJobOperator
from locking import shared_folder


class FirstError(Exception):
    """What the work fails with."""


class SecondError(OSError):
    """What tidying up fails with."""


def fail(*args: Any, **options: Any) -> None:
    raise SecondError("no room")


def test_all_steps_are_taken_and_the_first_error_is_raised() -> None:
    taken: list[int] = []
    with pytest.raises(FirstError) as raised, cleanup(fail, lambda: taken.append(1), fail, lambda: taken.append(2)):
        raise FirstError
    assert taken == [1, 2]
    assert raised.value.__notes__ == ["then, while tidying up: SecondError: no room"] * 2


def test_without_an_error_of_the_work_that_of_a_step_is_raised_behind_all_others() -> None:
    taken: list[int] = []
    with pytest.raises(SecondError) as raised, cleanup(fail, lambda: taken.append(1), fail):
        pass
    assert (taken, raised.value.__notes__) == ([1], ["then, while tidying up: SecondError: no room"])
    clean_up(None, lambda: taken.append(2))
    assert taken == [1, 2]


@contextmanager
def broken_engine(tmp_path: Path) -> Iterator[None]:
    with engine.open_engine(128 << 20, tmp_path) as connection, engine.apart(connection):
        connection.close()  # as after an error that DuckDB does not go on from
        yield


def coordination(tmp_path: Path) -> AbstractContextManager[Any]:
    store = CoordinationStore.open(f"sqlite:///{tmp_path}/log.db")
    store.close()
    store.close = fail  # type: ignore[method-assign]
    return store


def server(tmp_path: Path) -> AbstractContextManager[Any]:
    class Standing(PostgresServer):
        def start(self) -> Standing:
            return self

        def stop(self) -> None:
            fail()

    return Standing()


def operator(tmp_path: Path) -> AbstractContextManager[Any]:
    standing: Any = SimpleNamespace(_end_job=fail, _release=fail)
    return ArchiveJobOperator._ended(standing)


@pytest.mark.parametrize("make", [broken_engine, coordination, server, operator])
def test_no_end_hides_what_the_block_failed_with(
    make: Callable[[Path], AbstractContextManager[Any]], tmp_path: Path
) -> None:
    with pytest.raises(FirstError), make(tmp_path):
        raise FirstError


def test_a_command_that_was_interrupted_says_so_also_where_its_job_does_not_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt() -> None:
        raise FirstError

    ended: list[subprocess.Popen[bytes]] = []

    def end(process: subprocess.Popen[bytes], patience: float) -> None:
        process.kill()
        process.wait()
        ended.append(process)
        fail()

    monkeypatch.setattr(job_process, "end_session", end)
    with (tmp_path / "output").open("wb") as output, pytest.raises(FirstError):
        job_process.run_process([sys.executable, "-c", "import time; time.sleep(60)"], os.environ, output, interrupt)
    assert ended


def test_a_folder_that_cannot_be_made_durable_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def flush(descriptor: int) -> None:
        raise FirstError

    monkeypatch.setattr(os, "fsync", flush)
    monkeypatch.setattr(os, "close", fail)
    with pytest.raises(FirstError):
        shared_folder.sync_folder(tmp_path)
    monkeypatch.undo()
