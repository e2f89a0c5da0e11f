"""What the demo leaves: a whole archive, but no processes, and no files that tell a secret."""

from __future__ import annotations

import os
from pathlib import Path

import psutil

from holdfast.archive import Archive
from holdfast.archive.maintenance.verify import verify
from holdfast.storage import open_store
from locking import inspect


def processes_of(folder: Path) -> list[str]:
    """Every process that was started with the demo's Airflow home, or is told a path in its folder."""
    found = []
    for process in psutil.process_iter():
        try:
            words = [*process.cmdline(), process.environ().get("AIRFLOW_HOME", "")]
        except psutil.Error:
            continue
        if process.pid != os.getpid() and any(str(folder) in word for word in words):
            found.append(" ".join(words))
    return found


def files_with(secret: str, folder: Path) -> list[str]:
    """Every file below a folder that holds the secret."""
    wanted = secret.encode()
    return [str(path) for path in folder.rglob("*") if path.is_file() and wanted in path.read_bytes()]


def check_demo_archive(place: Path) -> None:
    """Check that the demo's archive is whole, has what the demo backs up, and is locked by nobody."""
    store = open_store(str(place))
    archive = Archive.open(store)
    kinds = [block.kind for commit in archive.commits() for block in commit.add]
    assert kinds == ["snapshot", "snapshot", *["changes"] * (len(kinds) - 2)]
    assert len(kinds) > 2
    assert all(commit.fence for commit in archive.commits())
    assert verify(archive, deep=True).damage == ()
    assert inspect(store) == []
