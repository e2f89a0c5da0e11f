"""Start Spark applications of ours, and tell them what they need without showing a secret.

Addresses and names go as arguments; the password and the locks go by environment, never through
Spark's `conf` or arguments, which are logged.
"""

from __future__ import annotations

import importlib.util
import os
import re
import secrets
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from holdfast.archive.locks import HeldLocks

LOCKS_VARIABLE = "HOLDFAST_LOCKS"
PARENT_VARIABLE = "HOLDFAST_PARENT"
URL_VARIABLES = {"source": "HOLDFAST_SOURCE_URL", "target": "HOLDFAST_TARGET_URL"}

SPARK_CONF = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # A speculative twin of a task would read and write everything twice.
    "spark.speculation": "false",
}
"""What every application of ours is submitted with."""

DEFAULT_MASTER = "local[*,4]"
"""All cores of this machine, each task tried up to four times."""


def find_application(name: str) -> Path:
    """Return the path of a Spark application, such as `backup`, without importing it.

    :raises HoldfastError: it is not installed.
    """
    spec = importlib.util.find_spec("sparkjobs")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        path = Path(folder) / f"{name}.py"
        if path.exists():
            return path
    raise HoldfastError(f"the Spark application {name} is not installed: install the holdfast wheel whole")


def new_run_id(prefix: str) -> str:
    """Return a name for a run that no other run has; it begins with `prefix` and sorts by time."""
    clean = re.sub(r"[^A-Za-z0-9._-]+", "-", prefix).strip("-.") or "run"
    return f"{clean[:150]}.{datetime.now(UTC):%Y%m%dT%H%M%SZ}.{secrets.token_hex(3)}"


def process_start(pid: int) -> str | None:
    """Return when a process started (clock ticks since boot), or None if there is none.

    With the pid it names a process for good: pids are used again. Source: proc(5), field 22 of stat.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    return stat.rpartition(")")[2].split()[19]


def job_environment(
    url: str, password: str | None, locks: HeldLocks, role: Literal["source", "target"]
) -> dict[str, str]:
    """Return what a job needs in its environment.

    :param url: of the database, without a password.
    :param role: whether the database is read (`source`) or written (`target`).
    """
    python = sys.executable
    environment = {
        URL_VARIABLES[role]: url,
        LOCKS_VARIABLE: locks.handles(),
        PARENT_VARIABLE: f"{os.getpid()}:{process_start(os.getpid())}",
        "PYSPARK_PYTHON": python,
        "PYSPARK_DRIVER_PYTHON": python,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PATH": f"{Path(python).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
    }
    if password:
        environment["PGPASSWORD"] = password
    return environment


def check_java() -> None:
    """Make sure that Spark can start.

    :raises HoldfastError: there is no Java; says what to type.
    """
    home = os.environ.get("JAVA_HOME")
    if not (home and (Path(home) / "bin" / "java").exists()) and shutil.which("java") is None:
        raise HoldfastError(
            "Spark needs Java 17 and none was found: install openjdk-17-jre-headless (apt-get install "
            "openjdk-17-jre-headless), or set JAVA_HOME"
        )


def submit(
    application: str,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    *,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    on_tick: Callable[[], None] = lambda: None,
    log: Path | None = None,
) -> int:
    """Run a Spark application with spark-submit and return its exit code.

    :param master: Spark's master URL; default is HOLDFAST_SPARK_MASTER, else this machine.
    :param on_tick: called about once a second while it runs.
    :param log: where Spark's own words go; default is nowhere.
    """
    check_java()
    merged = {**os.environ, **environment}
    binary = shutil.which("spark-submit", path=merged["PATH"])
    if binary is None:
        raise HoldfastError("spark-submit was not found: install the 'spark' extra (pyspark)")
    command = [binary, "--master", master or os.environ.get("HOLDFAST_SPARK_MASTER", DEFAULT_MASTER)]
    for name, value in {**SPARK_CONF, **(conf or {})}.items():
        command += ["--conf", f"{name}={value}"]
    command += [str(find_application(application)), *arguments]
    with (log or Path(os.devnull)).open("ab") as output:
        process = subprocess.Popen(
            command,
            env=merged,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        try:
            while True:
                try:
                    return process.wait(1.0)
                except subprocess.TimeoutExpired:
                    on_tick()
        except BaseException:
            _end(process)
            raise


def _end(process: subprocess.Popen[bytes]) -> None:
    """End spark-submit with its whole process group."""
    for number in (15, 9):
        try:
            os.killpg(process.pid, number)
            process.wait(10)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            continue
        return
