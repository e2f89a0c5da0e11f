"""A standalone Spark cluster of processes, whose workers know nothing of what drivers know."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import httpx

from bench.support.loopback import running
from bench.support.missing import MissingError
from holdfast.common.free_ports import free_port
from holdfast.operations.executor_choice import FORCED_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Iterator

_MEMORY = "1g"


@dataclass(frozen=True)
class SparkCluster:
    """A running cluster.

    :param url: of its master, ``spark://…``
    :param folder: of its configuration, of its workers and of its event logs
    :param ui: addresses of the web pages of its master and workers
    :param workers: pids of its workers, each the leader of a process group
    """

    url: str
    folder: Path
    ui: tuple[str, ...]
    workers: tuple[int, ...]

    @property
    def environment(self) -> dict[str, str]:
        """The variables by which jobs go to the cluster."""
        return {
            "HOLDFAST_SPARK_MASTER": self.url,
            "SPARK_CONF_DIR": str(self.folder / "conf"),
            "SPARK_LOCAL_IP": "127.0.0.1",
            FORCED_VARIABLE: "spark",
        }

    @property
    def applications(self) -> int:
        """Number of applications that have come to its master."""
        state = httpx.get(f"{self.ui[0]}/json/").json()
        return len(state["activeapps"]) + len(state["completedapps"])


@contextlib.contextmanager
def running_cluster(
    *, workers: int = 2, secret: bool = True, python: str | None = None, **conf: str
) -> Iterator[SparkCluster]:
    """Start a master and workers of one core each on loopback ports; stop them when the block ends.

    :param secret: whether its configuration has one, by which its processes know each other
    :param python: what runs tasks on the workers; None for the driver's own
    :param conf: more of it, with ``_`` for ``.``
    """
    program = shutil.which("spark-class", path=str(Path(sys.executable).parent))
    if program is None:
        raise MissingError("spark-class", "There is no spark-class beside this Python: `make setup` installs PySpark.")
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="holdfast-spark-")))
        settings = {
            "spark.eventLog.enabled": "true",
            "spark.eventLog.compress": "false",
            "spark.eventLog.dir": f"file://{folder}/events",
        }
        settings |= {name.replace("_", "."): value for name, value in conf.items()}
        if secret:
            settings |= {"spark.authenticate": "true", "spark.authenticate.secret": secrets.token_hex(16)}
        if python is not None:
            settings |= {"spark.pyspark.python": python, "spark.pyspark.driver.python": sys.executable}
        for name in ("conf", "events", "home"):
            (folder / name).mkdir()
        (folder / "conf" / "spark-defaults.conf").write_text("".join(f"{k} {v}\n" for k, v in settings.items()))
        environment = {
            "SPARK_CONF_DIR": str(folder / "conf"),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "HOME": str(folder / "home"),
            "TZ": "UTC",
            **{name: os.environ[name] for name in ("JAVA_HOME", "LANG") if name in os.environ},
        }

        def start(kind: str, *arguments: str) -> tuple[int, int, str]:
            page = free_port()
            given = ("--host", "127.0.0.1", "--webui-port", str(page), *arguments)
            port, pid = stack.enter_context(
                running(
                    lambda port: [program, f"org.apache.spark.deploy.{kind}", "--port", str(port), *given], environment
                )
            )
            return port, pid, f"http://127.0.0.1:{page}"

        port, _, page = start("master.Master")
        url = f"spark://127.0.0.1:{port}"
        started = [
            start(
                "worker.Worker", "--cores", "1", "--memory", _MEMORY, "--work-dir", str(folder / f"work-{number}"), url
            )
            for number in range(workers)
        ]
        pages = (page, *(each[2] for each in started))
        yield SparkCluster(url, folder, pages, tuple(pid for _, pid, _ in started))
