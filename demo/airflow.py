"""A standalone Airflow of one's own: own home, ports and user, stopped without leaving anything behind.

Run the demo as a module (`python -m demo…`): started by path, this folder would come first on
`sys.path` and this file would hide the real `airflow` package.
"""

from __future__ import annotations

import atexit
import json
import os
import secrets
import socket
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Self

from demo.airflow_api import AirflowApi
from demo.supervisor import KILL_S, TERM_S
from holdfast.common.errors import HoldfastError, UsageError
from holdfast.common.free_ports import free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType

USERNAME = "demo"
_COMPONENTS = ("scheduler", "dag_processor", "triggerer")
_SUPERVISOR = Path(__file__).with_name("supervisor.py")
_STOP_S = TERM_S + KILL_S + 5.0


class AirflowStartError(HoldfastError):
    """Airflow ended or was not healthy in time; the message quotes the end of its log."""


def _silent(_: str) -> None:
    """Say nothing."""


class AirflowStandalone:
    """`airflow standalone` with its own home, ports, user and process session; a context manager.

    :param home: AIRFLOW_HOME; made when it is not there. SQLite metadata, logs and the password file
        live in it, and `airflow.log` holds what the processes print.
    :param dags: folder of more DAG files, beside those of Holdfast.
    :param plugins: plugins folder; it comes on the import path of every Airflow process.
    :param env: more environment variables, such as `AIRFLOW_CONN_…` and `HOLDFAST_ARCHIVES`.
    :param port: of the UI and the API; without it, a free one.
    :param command: starts its parts, in place of `airflow standalone`, which knows one auth manager only.
    :param parallelism: how many tasks may run at once; each is a forked process that waits.
    :param say: told in words where the start is, at most once a second.
    """

    def __init__(
        self,
        *,
        home: Path,
        plugins: Path,
        dags: Path | None = None,
        env: Mapping[str, str] | None = None,
        port: int | None = None,
        command: Sequence[str] | None = None,
        parallelism: int = 4,
        say: Callable[[str], None] = _silent,
    ) -> None:
        self.home = home.absolute()
        self._database = self.home / "airflow.db"
        self.username = USERNAME
        self.password = secrets.token_urlsafe(12)
        self.log_file = self.home / "airflow.log"
        self._dags = dags.absolute() if dags else None
        self._plugins = plugins.absolute()
        self._env = dict(env or {})
        self._wanted_port = port
        self._command = command or [str(Path(sys.prefix, "bin", "airflow")), "standalone"]
        self._parallelism = parallelism
        self._say = say
        self._process: subprocess.Popen[bytes] | None = None
        self._started = datetime.now(UTC)
        self._api: AirflowApi | None = None
        self._url = ""

    @property
    def url(self) -> str:
        """Where UI and API are; known once started."""
        return self._url

    @property
    def api(self) -> AirflowApi:
        """The REST client; logged in once healthy.

        :raises UsageError: not started.
        """
        if self._api is None:
            raise UsageError("Airflow is not started")
        return self._api

    @property
    def database(self) -> str:
        """SQLAlchemy's URL of its metadata, with the password."""
        return self._env.get("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", f"sqlite:///{self._database}")

    @property
    def pid(self) -> int | None:
        """Id of the process above all of Airflow's (`kill` ends them all), or None when not started."""
        return self._process.pid if self._process is not None else None

    def __enter__(self) -> Self:
        self.start()
        try:
            self.wait_until_healthy()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start the processes and return at once; `wait_until_healthy` waits for them.

        :raises UsageError: the wanted port is taken.
        """
        port = _port_or_free(self._wanted_port)
        self._url = f"http://127.0.0.1:{port}"
        self.home.mkdir(parents=True, exist_ok=True)
        environment = self._environment(port)
        self._write_password()
        with closing(sqlite3.connect(self._database)) as database:
            database.execute("pragma journal_mode = wal")  # who reads waits for nobody
        self._api = AirflowApi(url=self._url, username=self.username, password=self.password)
        self._started = datetime.now(UTC)
        atexit.register(self.stop)
        with self.log_file.open("ab") as log:
            # The supervisor ends everything when this process ends, however it ends. A session of its own
            # keeps the terminal's Ctrl-C away from Airflow: it is for `stop` to end it in order.
            self._process = subprocess.Popen(
                [sys.executable, "-P", str(_SUPERVISOR), *self._command],
                env=environment,
                cwd=self.home,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def wait_until_healthy(self, *, timeout: float = 480.0) -> None:
        """Wait until API server, scheduler, DAG processor and triggerer work, then log in.

        :raises AirflowStartError: they do not, in `timeout` seconds.
        """
        began, said = time.monotonic(), 0
        while waiting := self._not_yet_healthy():
            elapsed = time.monotonic() - began
            if self._process is None or self._process.poll() is not None:
                raise AirflowStartError(f"Airflow ended while starting; {self._log_tail()}")
            if elapsed > timeout:
                names = ", ".join(waiting)
                raise AirflowStartError(f"Airflow's {names} did not start in {timeout:g} s; {self._log_tail(*waiting)}")
            if int(elapsed) > said:
                said = int(elapsed)
                self._say(f"Airflow is starting: waiting for {', '.join(waiting)} ({said} s)")
            time.sleep(0.2)
        self.api.log_in()
        self._say(f"Airflow is up at {self._url} after {time.monotonic() - began:.0f} s")

    def stop(self) -> None:
        """End every process Airflow started, running tasks included, and wait until all are gone.

        First politely, so that tasks can release their locks; after 12 s, or on a second Ctrl-C, by force.
        """
        process = self._process
        if process is None or process.stdin is None:
            return
        self.api.close()  # an open connection would keep the API server from ending
        try:
            process.stdin.close()
            process.wait(_STOP_S)
        except BaseException:
            process.terminate()
            process.wait(_STOP_S)
            raise
        finally:
            self._forget()

    def detach(self) -> None:
        """Leave Airflow running when this process ends; from then on `kill <pid>` ends it."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.write(b"d")
            self._process.stdin.flush()
            self._forget()

    def _forget(self) -> None:
        self._process = None
        atexit.unregister(self.stop)
        self.api.close()

    def _not_yet_healthy(self) -> list[str]:
        health = self.api.health()
        if health is None:
            return ["api_server"]
        return [name for name in _COMPONENTS if not self._is_alive(name, health.get(name) or {})]

    def _is_alive(self, name: str, health: Mapping[str, str | None]) -> bool:
        """Whether a component is healthy by a heartbeat of this start: a home may have an older one."""
        beat = health.get(f"latest_{name}_heartbeat")
        return health.get("status") == "healthy" and bool(beat) and datetime.fromisoformat(str(beat)) > self._started

    def _log_tail(self, *components: str) -> str:
        """Return the log's last lines: those of some components, when they have written any."""
        lines = self.log_file.read_text(errors="replace").splitlines() if self.log_file.exists() else []
        names = tuple(name.replace("_", "-") for name in components)
        theirs = [line for line in lines if line.startswith(names)] if names else []
        return "its log ends with:\n" + "\n".join((theirs or lines)[-15:])

    def _write_password(self) -> None:
        path = self.home / "passwords.json"
        path.touch(mode=0o600)
        path.write_text(json.dumps({self.username: self.password}) + "\n")

    def _environment(self, port: int) -> dict[str, str]:
        bundles: list[dict[str, object]] = [
            {"name": "holdfast", "classpath": "holdfast_airflow.dags.HoldfastDagBundle", "kwargs": {}}
        ]
        if self._dags:
            folder = {"path": str(self._dags)}
            classpath = "airflow.dag_processing.bundles.local.LocalDagBundle"
            bundles.append({"name": "dags-folder", "classpath": classpath, "kwargs": folder})
        settings = {
            "CORE__PLUGINS_FOLDER": self._plugins,
            "CORE__LOAD_EXAMPLES": False,
            "CORE__EXECUTOR": "LocalExecutor",
            "CORE__PARALLELISM": self._parallelism,
            "CORE__DAGS_ARE_PAUSED_AT_CREATION": False,
            "CORE__EXECUTION_API_SERVER_URL": f"{self._url}/execution/",
            # Never all_admins: it opens everything, and no test of "nobody may" would mean a thing.
            "CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": False,
            "CORE__SIMPLE_AUTH_MANAGER_USERS": f"{self.username}:admin",
            "CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": self.home / "passwords.json",
            "DATABASE__SQL_ALCHEMY_CONN": self.database,
            "API__HOST": "127.0.0.1",
            "API__PORT": port,
            "API__BASE_URL": self._url,
            "API__WORKERS": 1,
            "LOGGING__BASE_LOG_FOLDER": self.home / "logs",
            "LOGGING__WORKER_LOG_SERVER_PORT": free_port(),
            "LOGGING__TRIGGER_LOG_SERVER_PORT": free_port(),
            "DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps(bundles),
            "DAG_PROCESSOR__DAG_BUNDLE_STORAGE_PATH": self.home / "bundles",
            "DAG_PROCESSOR__REFRESH_INTERVAL": 5,
            # Files that have changed are read at once all the same; to read all of them takes five CPU seconds.
            "DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": 120,
            "DAG_PROCESSOR__BUNDLE_REFRESH_CHECK_INTERVAL": 1,
            "DAG_PROCESSOR__PRINT_STATS_INTERVAL": 0,
            # Somebody waits for each run, and a look costs little where there are few.
            "SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": 0.3,
            "SCHEDULER__SCHEDULER_HEARTBEAT_SEC": 1,
            # The scheduler begins before the API server listens. On a busy machine, tasks failed before they had begun:
            # their start was refused or not answered five times, or their DAG file not read in 30 s.
            "WORKERS__EXECUTION_API_RETRIES": 60,
            "WORKERS__EXECUTION_API_RETRY_WAIT_MAX": 5,
            "WORKERS__EXECUTION_API_TIMEOUT": 60,
            "CORE__DAGBAG_IMPORT_TIMEOUT": 300,
            "DAG_PROCESSOR__DAG_FILE_PROCESSOR_TIMEOUT": 300,
            "USAGE_DATA_COLLECTION__ENABLED": False,
        }
        # Nothing of an Airflow that the caller may have configured gets in.
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")}
        return {
            **inherited,
            # `airflow standalone` starts its components by name.
            "PATH": os.pathsep.join([str(Path(sys.prefix, "bin")), os.environ.get("PATH", os.defpath)]),
            "AIRFLOW_HOME": str(self.home),
            **{f"AIRFLOW__{name}": str(value) for name, value in settings.items()},
            **self._env,
        }


def _port_or_free(wanted: int | None) -> int:
    """Return the wanted port, or a free one."""
    if wanted is None:
        return free_port()
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", wanted))
        except OSError as error:
            raise UsageError(
                f"port {wanted} is taken ({error.strerror}): end what listens there, or name another port"
            ) from error
    return wanted
