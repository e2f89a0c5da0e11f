"""Processes of our Spark applications, and their arguments and environment without visible secrets.

Addresses and names are arguments. Passwords and locks are in the environment: arguments and Spark's `conf` are logged.
"""

from __future__ import annotations

import importlib.util
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import IO, TYPE_CHECKING, Literal

from holdfast.common.cleanup import cleanup
from holdfast.common.errors import HoldfastError
from holdfast.common.signing import AS_ENVIRONMENT_SAYS, ArchiveKeys
from holdfast.operations import ready_process
from holdfast.operations.executor_choice import check_hand_over, is_inline
from holdfast.operations.ready_process import PYTHON_SETTINGS
from holdfast.storage.encryption.key_source import ENVIRONMENT as KEY_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from holdfast.archive.locks import HeldLocks

LOCKS_VARIABLE = "HOLDFAST_LOCKS"
RECORDS_VARIABLE = "HOLDFAST_RECORDS"
"""The folder for records of a job that writes nothing to the archive."""
PARENT_VARIABLE = "HOLDFAST_PARENT"
WAIT_VARIABLE = "HOLDFAST_WAIT"
"""Seconds that a job may wait for further locks on its replica."""
LOCAL_VARIABLE = "HOLDFAST_LOCAL"
"""Set for a driver whose workers are on its own machine."""
SNAPSHOT_VARIABLE = "HOLDFAST_SNAPSHOT"
DECISION_VARIABLE = "HOLDFAST_DECISION"
URL_VARIABLES = {"source": "HOLDFAST_SOURCE_URL", "target": "HOLDFAST_TARGET_URL"}

DRIVER_OPTIONS = "spark.driver.defaultJavaOptions"

OF_WORKERS = "spark.executorEnv."
"""Prefix of Spark's settings for variables of its workers' environment."""

SPARK_CONF = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # A speculative twin of a task would read and write everything twice.
    "spark.speculation": "false",
    "spark.python.daemon.module": "sparkjobs.executors.daemon",
    # No bulk data goes through Java, so code that is compiled well never pays: it is a third of a short job's CPU time.
    DRIVER_OPTIONS: "-XX:TieredStopAtLevel=1",
    "spark.executor.defaultJavaOptions": "-XX:TieredStopAtLevel=1",
    **{f"{OF_WORKERS}{name}": value for name, value in PYTHON_SETTINGS.items()},
}
"""Spark's configuration of every application."""


def classes_file() -> Path | None:
    """Return the file of shared classes for this environment's Spark, if it has one."""
    try:
        version = metadata.version("pyspark")
    except metadata.PackageNotFoundError:
        return None
    return Path(sys.prefix) / "share" / "holdfast" / f"spark-{version}.jsa"


def spark_conf() -> dict[str, str]:
    """Return the configuration of every application, with the shared classes that `holdfast.spark_classes` made."""
    file = classes_file()
    if file is None or not file.exists():
        return dict(SPARK_CONF)
    # Without these options Java logs at length where they do not fit.
    prepared = f'"-XX:SharedArchiveFile={file}" -Xlog:cds*=off -Xlog:class+path=off'
    return {**SPARK_CONF, DRIVER_OPTIONS: f"{SPARK_CONF[DRIVER_OPTIONS]} {prepared}"}


JAVA_VERSIONS = (17, 21)
"""What Spark 4.2 runs on."""

MASTER_VARIABLE = "HOLDFAST_SPARK_MASTER"
DEFAULT_MASTER = "local[*,4]"
"""All cores of this machine, each task tried up to four times."""


def find_application(name: str) -> Path:
    """Return the path of a Spark application, such as `backup`; raises HoldfastError if it is not installed."""
    spec = importlib.util.find_spec("sparkjobs")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        path = Path(folder) / f"{name}.py"
        if path.exists():
            return path
    raise HoldfastError(f"the Spark application {name} is missing: install the whole holdfast wheel")


def new_run_id(prefix: str) -> str:
    """Return a unique name for a run, which begins with `prefix` and sorts by time."""
    clean = re.sub(r"[^A-Za-z0-9._-]+", "-", prefix).strip("-.") or "run"
    return f"{clean[:150]}.{datetime.now(UTC):%Y%m%dT%H%M%SZ}.{secrets.token_hex(3)}"


def process_start(pid: int) -> str | None:
    """Return when a running process started (clock ticks since boot); None if it does not run.

    Pids are used again; pid and start are unique. Source: proc(5), fields 3 and 22 of stat.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else fields[19]  # a zombie has ended


def job_path() -> str:
    """Return the search path of a job's programs, with this Python's folder first."""
    return f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"


def job_environment(
    url: str | None,
    password: str | None,
    locks: HeldLocks | None,
    role: Literal["source", "target"] = "source",
    *,
    keys: ArchiveKeys = AS_ENVIRONMENT_SAYS,
) -> dict[str, str]:
    """Return the environment variables of a job.

    :param url: of its database, without a password; `role` says whether that is read or written.
    :param keys: of the archive; others come from this process's environment.
    """
    python = sys.executable
    environment = {
        PARENT_VARIABLE: f"{os.getpid()}:{process_start(os.getpid())}",
        "PYSPARK_PYTHON": python,
        "PYSPARK_DRIVER_PYTHON": python,
        "PATH": job_path(),
    }
    if keys.key is not None:
        environment[KEY_VARIABLE] = keys.key
    if keys.signing is not None:
        environment |= keys.signing.environment()
    if locks is not None:
        environment[LOCKS_VARIABLE] = locks.handles()
    if url is not None:
        environment[URL_VARIABLES[role]] = url
    if password:
        environment["PGPASSWORD"] = password
    return environment


def spark_master() -> str:
    """Return the master URL of the Spark that commands use."""
    return os.environ.get(MASTER_VARIABLE, DEFAULT_MASTER)


def local_environment(master: str) -> dict[str, str]:
    """Return the variables that keep a local Spark (`local[…]`) from listening to other machines."""
    return {"SPARK_LOCAL_IP": "127.0.0.1", LOCAL_VARIABLE: "1"} if master.startswith("local") else {}


def java_version() -> int | None:
    """Return the major version of the Java that Spark would use: JAVA_HOME, then PATH."""
    home = os.environ.get("JAVA_HOME")
    binary = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if not binary or not Path(binary).exists():
        return None
    output = subprocess.run([binary, "-version"], capture_output=True, text=True, check=False).stderr
    version = re.search(r'version "(\d+)', output)
    return int(version[1]) if version else None


def check_java() -> None:
    """Raise HoldfastError if there is no Java that Spark runs on."""
    version = java_version()
    if version in JAVA_VERSIONS:
        return
    home = os.environ.get("JAVA_HOME")
    where = f" at JAVA_HOME ({home})" if home else ""
    found = "none was found" if version is None else f"found version {version}"
    raise HoldfastError(
        f"Spark needs Java 17 or 21 and {found}{where}: install openjdk-17-jre-headless (apt-get install "
        "openjdk-17-jre-headless), or set JAVA_HOME to one that is there"
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
    """Run an application, inline or with spark-submit, as its environment says; return its exit code.

    The code is negative for a signal. When this returns or raises, every process it started has ended.

    :param master: Spark's master URL; default is HOLDFAST_SPARK_MASTER, else this machine.
    :param on_tick: called about once a second while it runs.
    :param log: the file for the output of its processes.
    :raises SparkNeededError: it ran inline, and did nothing of its work, which is more than small.
    """
    log = log or Path(os.devnull)
    process = None
    if is_inline(environment):
        command, merged = inline_command(application, arguments), {**os.environ, **PYTHON_SETTINGS, **environment}
        process = ready_process.take(application, arguments, environment, log)
    else:
        ready_process.discard()
        master = master or spark_master()
        merged = {**os.environ, **local_environment(master), **environment}
        command = _spark_command(application, arguments, master, conf or {}, merged["PATH"])
    if process is not None:
        code = await_end(process, on_tick)
    else:
        with log.open("ab") as output:
            code = run_process(command, merged, output, on_tick)
    check_hand_over(application, code)
    return code


def inline_command(application: str, arguments: Sequence[str]) -> list[str]:
    """Return the command that runs an application without Spark; raises HoldfastError if it is not installed."""
    find_application(application)
    return [sys.executable, "-P", "-m", "sparkjobs.run_inline", application, *arguments]


def _spark_command(
    application: str, arguments: Sequence[str], master: str, conf: Mapping[str, str], path: str
) -> list[str]:
    check_java()
    binary = shutil.which("spark-submit", path=path)
    if binary is None:
        raise HoldfastError("spark-submit was not found: install the 'spark' extra (pyspark)")
    command = [binary, "--master", master]
    for name, value in {**spark_conf(), **conf}.items():
        command += ["--conf", f"{name}={value}"]
    return [*command, str(find_application(application)), *arguments]


def run_process(
    command: Sequence[str], environment: Mapping[str, str], output: IO[bytes], on_tick: Callable[[], None]
) -> int:
    """Run a command in a session of its own until all of its processes have ended."""
    process = subprocess.Popen(
        command, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
    )
    return await_end(process, on_tick)


def await_end(process: subprocess.Popen[bytes], on_tick: Callable[[], None]) -> int:
    """Wait for a session's first process, and return its exit code when nothing is left of the session."""
    patience = 0.0
    with cleanup(lambda: end_session(process, patience)):
        while True:
            try:
                code = process.wait(1.0)
            except subprocess.TimeoutExpired:
                on_tick()
                continue
            # A driver whose Java was killed lives on: it has time to report that, and none to commit.
            patience = LAST_WORDS_S
            return code


LAST_WORDS_S = 5.0
"""Seconds for the other processes of a job once its first has ended by itself."""

POLITE_S = 10.0
"""Seconds between asking a job's processes to end and ending them."""

_FORCED_S = 5.0


def end_session(process: subprocess.Popen[bytes], patience: float) -> None:
    """End all processes in a job's session: Java, the driver, its workers.

    :param patience: seconds to let them end by themselves.
    """
    for number, seconds in ((0, patience), (signal.SIGTERM, POLITE_S), (signal.SIGKILL, _FORCED_S)):
        for pid in _session(process.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        deadline = time.monotonic() + seconds
        while (running := _session(process.pid)) and time.monotonic() < deadline:
            process.poll()
            time.sleep(0.05)
        if not running:
            process.poll()
            return


def _session(leader: int) -> list[int]:
    """Return the processes of a session that have not ended. Source: proc(5), fields 3 and 6 of stat."""
    pids = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, _, _, session = stat.read_text().rpartition(")")[2].split()[:4]
            if int(session) == leader and state not in "ZX":
                pids.append(int(stat.parent.name))
    return pids
