"""The servers that drills start: gone with the drill, also where that was killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from holdfast.common.errors import HoldfastError
from holdfast.drill.servers import DrillServer, _namespace, sweep
from holdfast.operations.job_process import process_start
from holdfast.postgresql.connection.server import PostgresServer
from holdfast.postgresql.connection.session import connect

STARTS = """
import sys, time
from holdfast.drill.servers import DrillServer
server = DrillServer(at_least=14, encoding="UTF8").start()
print(server.pid, server.folder.parent, flush=True)
time.sleep(600)
"""


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for temporary files of its own, which the server's user can come to."""
    with tempfile.TemporaryDirectory(prefix="holdfast-test-") as folder:
        Path(folder).chmod(0o755)
        monkeypatch.setenv("TMPDIR", folder)
        monkeypatch.setattr(tempfile, "tempdir", None)
        yield Path(folder)
    monkeypatch.setattr(tempfile, "tempdir", None)


@pytest.mark.service
def test_a_server_has_an_empty_database_of_the_encoding_and_leaves_nothing(temporary: Path) -> None:
    with DrillServer(at_least=14, encoding="LATIN1") as server:
        with connect(server.address) as session:
            assert session.execute("show server_encoding").fetchone() == ("LATIN1",)
            assert session.execute("select count(*) from pg_tables where schemaname = 'public'").fetchone() == (0,)
            assert session.execute("show listen_addresses").fetchone() == ("127.0.0.1",)
        pid = server.pid
        assert server.password not in repr(server.address)
    assert pid is not None
    assert process_start(pid) is None
    assert list(temporary.iterdir()) == []


@pytest.mark.service
def test_what_a_killed_drill_leaves_is_ended_and_removed_by_the_next(temporary: Path) -> None:
    drill = subprocess.Popen([sys.executable, "-c", STARTS], stdout=subprocess.PIPE, text=True)
    assert drill.stdout is not None
    pid, folder = drill.stdout.readline().split()
    assert sweep() == []  # it is at work
    drill.kill()
    drill.wait()
    drill.stdout.close()
    assert process_start(int(pid)) is not None
    assert sweep() == [folder]
    assert process_start(int(pid)) is None
    assert list(temporary.iterdir()) == []


@pytest.mark.service
def test_a_server_that_is_kept_stays_until_it_is_ended(temporary: Path) -> None:
    with DrillServer(at_least=14, encoding="UTF8") as server:
        told = server.keep()
    assert server.password not in told
    passwords = Path(told.partition("PGPASSFILE=")[2].split()[0])
    assert server.password in passwords.read_text()
    assert passwords.stat().st_mode & 0o077 == 0
    assert sweep() == []
    with connect(server.address):
        pass
    assert server._process is not None
    server._process.send_signal(signal.SIGINT)
    server._process.wait(60)
    assert len(sweep()) == 1
    assert list(temporary.iterdir()) == []


def test_folders_of_others_are_left_alone(temporary: Path) -> None:
    for name in ("holdfast-drill-mine", "holdfast-drill-1-2-3-x", "holdfast-drill-notes"):
        (temporary / name).mkdir()
    assert sweep() == []
    assert len(list(temporary.iterdir())) == 3


@pytest.fixture
def other_server() -> Iterator[PostgresServer]:
    """A server that is none of a drill's."""
    with PostgresServer() as server:
        yield server


def left_by_a_killed_drill(temporary: Path) -> Path:
    """Return what a folder would be called that a drill has left which does not run any more."""
    return temporary / f"holdfast-drill-{_namespace()}-1-0-planted"


@pytest.mark.exhaustive
@pytest.mark.service
def test_a_link_does_not_make_a_sweep_stop_the_server_it_leads_to(
    temporary: Path, other_server: PostgresServer
) -> None:
    assert other_server.folder is not None
    folder = left_by_a_killed_drill(temporary)
    there = temporary / "there"
    there.mkdir()
    (there / "server").symlink_to(other_server.folder)
    folder.symlink_to(there)
    assert sweep() == []
    folder.unlink()
    folder.mkdir()
    (folder / "server").symlink_to(other_server.folder)
    (folder / "own").mkdir()
    (folder / "own" / "data").symlink_to(other_server.folder / "data")
    (folder / "file").mkdir()
    (folder / "file" / "data").mkdir()
    (folder / "file" / "data" / "postmaster.pid").symlink_to(other_server.folder / "data" / "postmaster.pid")
    (folder / "told").mkdir()
    (folder / "told" / "data").mkdir()
    (folder / "told" / "data" / "postmaster.pid").write_text(f"{other_server.pid}\n")
    assert sweep() == [str(folder)]
    with psycopg.connect(other_server.conninfo()) as session:
        assert session.execute("select 1").fetchone() == (1,)
    assert (other_server.folder / "data" / "PG_VERSION").exists()


def test_what_cannot_be_looked_at_is_left(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = left_by_a_killed_drill(temporary)
    folder.mkdir()

    def refuse(path: Path) -> os.stat_result:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "lstat", refuse)
    assert sweep() == []


def test_a_version_that_is_not_installed_is_said_with_what_to_do(temporary: Path) -> None:
    with pytest.raises(HoldfastError, match=r"version 99 or newer .* with its extra embedded.* --to"):
        DrillServer(at_least=99, encoding="UTF8")
    assert list(temporary.iterdir()) == []
