"""What a reader must know of the machine to judge figures that were taken on it."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from bench.support.jdbc.spark_jdbc import DRIVER

if TYPE_CHECKING:
    from holdfast.postgresql.connection.server import PostgresServer


def host() -> dict[str, str]:
    """Return name and value of each fact that matters to whatever is measured, for people."""
    processor = _found(Path("/proc/cpuinfo"), r"model name\s*: (.+)")
    memory_kib = int(_found(Path("/proc/meminfo"), r"MemTotal:\s+(\d+)"))
    return {
        "Processor": f"{processor}, {os.cpu_count()} cores",
        "Memory": f"{memory_kib / 2**20:.1f} GiB",
        "System": f"{platform.system()} {platform.release()}",
        "Python": platform.python_version(),
    }


def facts(server: PostgresServer) -> dict[str, str]:
    """Return those of the machine, and of what backups and restores were measured with."""
    return host() | {
        "PostgreSQL": _says(server.programs / "postgres", "--version"),
        "Java": _says("java", "-version").splitlines()[0],
        "Spark": f"{version('pyspark')}, JDBC driver {DRIVER}",
        "Libraries": ", ".join(f"{name} {version(name)}" for name in ("pyarrow", "adbc-driver-postgresql", "psycopg")),
    }


def load() -> float:
    """Return how many processes wanted to run, on average over the last minute."""
    return os.getloadavg()[0]


def _found(path: Path, pattern: str) -> str:
    found = re.search(pattern, path.read_text())
    return found.group(1) if found else "0"


def _says(program: str | Path, argument: str) -> str:
    done = subprocess.run([program, argument], capture_output=True, text=True, check=True)
    return (done.stdout or done.stderr).strip()
