from __future__ import annotations

import getpass
import os
from pathlib import Path

import psutil
import psycopg
import pytest

from holdfast.common.errors import HoldfastError
from holdfast.postgresql.connection.server import PostgresServer

pytestmark = pytest.mark.service


def test_a_server_is_ready_when_it_starts_and_gone_without_a_trace_when_it_stops() -> None:
    server = PostgresServer(settings={"work_mem": "5MB"})
    with server:
        pid, folder = server.pid, server.folder
        assert pid is not None
        assert folder is not None
        with psycopg.connect(server.conninfo()) as session:
            assert session.execute("show wal_level").fetchone() == ("logical",)
            assert session.execute("show work_mem").fetchone() == ("5MB",)
        assert server.password not in server.url()
        # The password is not in the settings, and the file initdb read it from is gone.
        assert not (folder / "password").exists()
        if os.geteuid() == 0:
            assert psutil.Process(pid).username() in ("holdfast-postgres", "nobody")
    assert not psutil.pid_exists(pid)
    assert not folder.exists()
    server.stop()  # twice does no harm


def test_a_server_of_roots_runs_as_the_first_user_that_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.postgresql.connection.server._USERS", ("no-such-user", "daemon", "nobody"))
    with PostgresServer() as server:
        user = psutil.Process(server.pid).username()
    assert user == ("daemon" if os.geteuid() == 0 else getpass.getuser())


def test_a_server_has_none_of_our_secrets_in_its_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s3cret")
    with PostgresServer() as server:
        had = Path(f"/proc/{server.pid}/environ").read_bytes().split(b"\0")
    names = {each.partition(b"=")[0].decode() for each in had if each}
    assert names <= {"LC_ALL", "LD_LIBRARY_PATH", "LOCPATH", "PATH", "TMPDIR", "TZ", "TZDIR", "PG_GRANDPARENT_PID"}


def test_a_server_wants_its_password() -> None:
    with PostgresServer() as server, pytest.raises(psycopg.OperationalError, match="no password supplied"):
        psycopg.connect(server.url(), passfile="/nowhere")


def test_a_server_that_does_not_start_says_why_and_leaves_nothing() -> None:
    server = PostgresServer(settings={"no_such_setting": "1"})
    with pytest.raises(HoldfastError, match=r"did not start: .*no_such_setting"):
        server.start()
    assert (server.folder, server.pid) == (None, None)


def test_a_folder_without_programs_is_an_error(tmp_path: Path) -> None:
    with pytest.raises((HoldfastError, OSError)):
        PostgresServer(programs=tmp_path).start()
