"""The servers of a run: sources, target, coordination store, S3, and the ways to them that can be cut."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import time
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg

from bench.support.faults.disk import MountError, mounted
from bench.support.faults.link import Link, linked
from bench.support.faults.restarted import RestartedServer
from bench.support.versitygw import REGION, find_versitygw
from holdfast.common.free_ports import free_port
from soak.lanes import TURNS, Lane
from soak.store_proxy import StoreProxy, proxied

if TYPE_CHECKING:
    from collections.abc import Iterator

    from soak.journal import Journal

REPLICAS = ("near", "far", "away")
SOURCES = ("shop", "books")
LANES = 2
DISK = "2g"
_START_S = 30.0

_SETTINGS = {
    "max_replication_slots": "10",
    "max_wal_senders": "10",
    "max_connections": "60",
    "shared_buffers": "32MB",
    "track_commit_timestamp": "on",
}


class S3Process:
    """An S3 server that can be killed and started again, with its files, at its port."""

    def __init__(self, folder: Path, log: Path, password: str) -> None:
        self.folder = folder
        self.port = free_port()
        self._log = log
        self._password = password
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it; returns when it listens."""
        command: list[str | Path] = [
            find_versitygw(),
            "--port",
            f"127.0.0.1:{self.port}",
            "--region",
            REGION,
            "--quiet",
            "posix",
            self.folder,
        ]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                env={"PATH": os.environ["PATH"], "ROOT_ACCESS_KEY": "soak", "ROOT_SECRET_KEY": self._password},
                stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
        deadline = time.monotonic() + _START_S
        while time.monotonic() < deadline:
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
                return
            time.sleep(0.05)
        raise RuntimeError(f"the S3 server did not start; see {self._log}")

    @property
    def pids(self) -> set[int]:
        """Return its process."""
        return set() if self._process is None else {self._process.pid}

    def kill(self) -> None:
        """Kill it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()


@dataclass
class Servers:
    """All that runs beside the operations.

    :param folder: of the run.
    :param canaries: each secret by what it is for; none of them may be told anywhere.
    :param disk: the folder of the replica `away` where its disk can be made full; else None, and `no_disk` says why.
    """

    folder: Path
    sources: RestartedServer
    target: RestartedServer
    coordination: RestartedServer
    s3: S3Process
    proxy: StoreProxy
    to_sources: Link
    to_coordination: Link
    canaries: dict[str, str]
    disk: Path | None = None
    no_disk: str = ""
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def pids(self) -> set[int]:
        """Return the servers' first processes."""
        found = {server.pid for server in (self.sources, self.target, self.coordination)}
        return {pid for pid in found if pid is not None}

    def source_variables(self, name: str) -> dict[str, str]:
        """Return libpq's variables for a source, straight, not by the way that is cut."""
        return _variables(self.sources, name)

    def target_variables(self, name: str) -> dict[str, str]:
        """Return libpq's variables for a database of the target server."""
        return _variables(self.target, name)


def _variables(server: RestartedServer, database: str) -> dict[str, str]:
    return {
        "PGHOST": "127.0.0.1",
        "PGPORT": str(server.port),
        "PGUSER": server.user,
        "PGDATABASE": database,
        "PGPASSWORD": server.password,
    }


def _server(stack: ExitStack, canary: str) -> RestartedServer:
    server = RestartedServer(settings=_SETTINGS)
    server.password = canary
    stack.enter_context(server)
    return server


@contextmanager
def running(folder: Path, journal: Journal, seed: int) -> Iterator[Servers]:
    """Start all of it, with an empty archive's places and filled sources; end it with the block."""
    canaries = {name: f"canary-{secrets.token_hex(12)}" for name in ("sources", "target", "coordination", "s3")}
    with ExitStack() as stack:
        sources, target, coordination = (_server(stack, canaries[n]) for n in ("sources", "target", "coordination"))
        buckets = folder / "s3"
        buckets.mkdir()
        disk, no_disk = _places(stack, buckets)
        s3 = S3Process(buckets, folder / "s3.log", canaries["s3"])
        s3.start()
        stack.callback(s3.kill)
        proxy = stack.enter_context(proxied(s3.port, journal, seed))
        to_sources = stack.enter_context(linked(sources.port))
        to_coordination = stack.enter_context(linked(coordination.port))
        made = Servers(
            folder, sources, target, coordination, s3, proxy, to_sources, to_coordination, canaries, disk, no_disk
        )
        _fill(made, seed)
        made.environment.update(_environment(made))
        yield made


def _places(stack: ExitStack, buckets: Path) -> tuple[Path | None, str]:
    """Make the buckets, the last one on a disk of its own where that is allowed."""
    for name in REPLICAS[:-1]:
        (buckets / name).mkdir()
    try:
        return stack.enter_context(mounted(buckets / REPLICAS[-1], DISK)), ""
    except MountError as error:
        (buckets / REPLICAS[-1]).mkdir(exist_ok=True)
        return None, str(error)


def _fill(servers: Servers, seed: int) -> None:
    with psycopg.connect(servers.coordination.conninfo(), autocommit=True) as connection:
        connection.execute("create database holdfast")
    for name in SOURCES:
        with psycopg.connect(servers.sources.conninfo(), autocommit=True) as connection:
            connection.execute(f"create database {name}")
        with psycopg.connect(servers.sources.conninfo(name)) as connection:
            connection.execute(f"create table {TURNS} (lane int primary key, turn bigint not null)")
            for lane in range(LANES):
                for statement in Lane(seed, name, lane).create():
                    connection.execute(statement)


def _environment(servers: Servers) -> dict[str, str]:
    """Return the environment of every operation: where things are, and the secrets that it needs."""
    given = servers.folder / "archives.yaml"
    sources = "\n".join(
        f"      {name}: {{url: 'postgresql://{servers.sources.user}@127.0.0.1:{servers.to_sources.port}/{name}'}}"
        for name in SOURCES
    )
    replicas = ", ".join(f"{name}: 's3://{name}/soak'" for name in REPLICAS)
    store = f"postgresql://{servers.coordination.user}@127.0.0.1:{servers.to_coordination.port}/holdfast"
    given.write_text(
        f"archives:\n  soak:\n    replicas: {{{replicas}}}\n    store: '{store}'\n    quorum: 2\n"
        f"    quorum_timeout: 3min\n    compaction: {{min_blocks: 4, min_age: 1min}}\n    sources:\n{sources}\n"
    )
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PG", "HOLDFAST_", "AWS_"))}
    return kept | {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{servers.proxy.port}",
        "AWS_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_ACCESS_KEY_ID": "soak",
        "AWS_SECRET_ACCESS_KEY": servers.canaries["s3"],
        "AWS_EC2_METADATA_DISABLED": "true",
        "HOLDFAST_ARCHIVES": str(given),
        "HOLDFAST_STORE_PASSWORD": servers.canaries["coordination"],
    }


def crash(server: RestartedServer, away: float) -> None:
    """Kill a PostgreSQL server with all its processes, and start it again after so many seconds."""
    server.end(signal.SIGKILL)
    time.sleep(away)
    server.start_again()
