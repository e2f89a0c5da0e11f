from __future__ import annotations

import os
import select
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import pyspark
import pytest

from holdfast.operations.job_process import SPARK_CONF
from holdfast.operations.ready_process import PYTHON_SETTINGS
from sparkjobs.executors import daemon
from sparkjobs.executors.daemon import PREPARED, Prepared, prepare
from tests.support.jobs.fresh_python import run

pytestmark = pytest.mark.slow

ZIP = Path(pyspark.__file__).parent / "python" / "lib" / "pyspark.zip"


def test_the_daemon_is_the_one_that_jobs_are_submitted_with() -> None:
    assert SPARK_CONF["spark.python.daemon.module"] == "sparkjobs.executors.daemon"


def test_what_the_daemon_imports_starts_no_thread_which_a_fork_would_lose() -> None:
    program = (
        "import os, sys; from sparkjobs.executors import daemon; daemon._import(); "
        "print(len(os.listdir('/proc/self/task')), {'numpy', 'pyarrow'} <= sys.modules.keys())"
    )
    assert run(program) == ["1", "True"]


def test_an_installed_pyspark_is_taken_from_its_folder_where_spark_offers_its_zip() -> None:
    assert run("import pyspark; print(pyspark.__file__)", ZIP)[0].startswith(str(ZIP))
    assert run("import sparkjobs, pyspark; print(pyspark.__file__)", ZIP) == [pyspark.__file__]


@contextmanager
def prepared(environment: Mapping[str, str] = PYTHON_SETTINGS) -> Iterator[Prepared]:
    """Prepare a daemon, and see that none is left."""
    made = prepare(environment)
    try:
        yield made
    finally:
        with made.process:
            assert made.process.stdin is not None
            made.process.stdin.close()
            made.process.wait(30)


@contextmanager
def started_by_spark(**environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """Start a daemon as Spark does; Spark ends it by closing its standard input."""
    with subprocess.Popen(
        [sys.executable, "-m", "sparkjobs.executors.daemon", "pyspark.worker"],
        env={**os.environ, "PYTHON_WORKER_FACTORY_SECRET": "secret", **environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        yield process


def ask_for_a_worker(process: subprocess.Popen[bytes]) -> int:
    """Ask for a worker at the port that the daemon tells; return its process id, and let it end."""
    assert process.stdout is not None
    (port,) = struct.unpack("!i", process.stdout.read(4))
    with socket.create_connection(("127.0.0.1", port)) as connection:
        (pid,) = struct.unpack("!i", connection.recv(4))
        connection.sendall(struct.pack("!i6s", 6, b"secret"))
        assert connection.recv(6) == struct.pack("!i2s", 2, b"ok")
    return int(pid)


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def close(process: subprocess.Popen[bytes]) -> None:
    """Close a daemon's standard input, and wait for its end; PySpark's own ends with 1."""
    assert process.stdin is not None
    process.stdin.close()
    process.wait(30)


def test_a_prepared_daemon_forks_the_workers_of_the_one_that_spark_starts_and_ends_with_it() -> None:
    with prepared() as made, started_by_spark(**{PREPARED: made.address, **PYTHON_SETTINGS}) as process:
        assert process.stdout is not None
        (port,) = struct.unpack("!i", process.stdout.read(4))
        with socket.create_connection(("127.0.0.1", port)) as connection:
            (pid,) = struct.unpack("!i", connection.recv(4))
            assert parent_of(pid) == made.process.pid
            told = Path(f"/proc/{made.process.pid}/environ").read_bytes().split(b"\0")
            assert {f"{name}={value}".encode() for name, value in PYTHON_SETTINGS.items()} <= set(told)
            connection.sendall(struct.pack("!i6s", 6, b"secret"))  # it has the environment that Spark gave the other
            assert connection.recv(6) == struct.pack("!i2s", 2, b"ok")
        close(process)
        made.process.wait(30)


@pytest.mark.exhaustive
def test_a_prepared_daemon_that_nobody_asks_for_ends_with_the_process_that_prepared_it() -> None:
    program = (
        "from sparkjobs.executors.daemon import prepare; made = prepare({}); print(made.process.pid, flush=True); "
        "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, check=False, timeout=60)
    pid = int(done.stdout)
    with suppress(ProcessLookupError):  # it has ended already
        ended = os.pidfd_open(pid)
        try:
            assert select.select([ended], [], [], 30)[0], "it has not ended"
        finally:
            os.close(ended)


@pytest.mark.parametrize(
    "address",
    [
        "holdfast-nobody:" + sys.executable,
        "holdfast-nobody:/usr/bin/another-python",
        pytest.param("", marks=pytest.mark.exhaustive),
    ],
)
def test_without_a_prepared_daemon_for_this_python_the_one_that_spark_starts_does_it_all(address: str) -> None:
    with started_by_spark(**{PREPARED: address}) as process:
        assert ask_for_a_worker(process) > 0
        close(process)


def test_nothing_is_handed_over_to_somebody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    user = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: user + 1)
    with socket.socket(socket.AF_UNIX) as other:
        other.bind("\0holdfast-other")
        other.listen(1)
        assert not daemon._hand_over(f"holdfast-other:{sys.executable}")
        connection, _ = other.accept()
        with connection:
            assert connection.recv(1) == b""


def test_other_users_are_told_apart() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert daemon._is_ours(ours)
        user = os.getuid()
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(os, "getuid", lambda: user + 1)
            assert not daemon._is_ours(ours)


def test_a_prepared_daemon_that_ends_before_it_has_taken_over_leaves_it_to_the_other() -> None:
    with socket.socket(socket.AF_UNIX) as gone:
        gone.bind("\0holdfast-gone")
        gone.listen(1)

        def end() -> None:
            connection, _ = gone.accept()
            connection.recv(1)
            connection.close()

        with ThreadPoolExecutor(1) as pool:
            ended = pool.submit(end)
            assert not daemon._hand_over(f"holdfast-gone:{sys.executable}")
            ended.result()


@pytest.mark.exhaustive
def test_a_daemon_that_was_to_be_started_otherwise_is_not_replaced() -> None:
    with prepared() as made, started_by_spark(**{PREPARED: made.address, "MALLOC_ARENA_MAX": "1"}) as process:
        assert process.stdout is not None
        (port,) = struct.unpack("!i", process.stdout.read(4))
        with socket.create_connection(("127.0.0.1", port)) as connection:
            (pid,) = struct.unpack("!i", connection.recv(4))
            assert parent_of(pid) == process.pid
        close(process)
