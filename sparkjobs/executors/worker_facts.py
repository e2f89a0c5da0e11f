"""Facts that a worker's Python reports of itself, also without Holdfast.

This module is pickled by value: it imports nothing but Python's own library, and what may be missing inside functions.
"""

from __future__ import annotations

import importlib
import os
import pickle
import platform
import shutil
import stat
import sys
import tempfile
import time
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

FOLDER_VARIABLES = ("SPARK_LOCAL_DIRS", "LOCAL_DIRS", "SPARK_EXECUTOR_DIRS")
"""Variables of Spark's Python workers; the first that is set names the folders of their executor's own files."""


def asker(release: str, question: bytes | None) -> Callable[[Iterable[Any]], Iterator[dict[str, Any]]]:
    """Return the function of a Spark task that yields the facts of its worker, with its answers to a question.

    :param release: of the driver: a worker of another one is not asked.
    :param question: pickled, it takes the items of a task and yields answers; None for none.
    """

    def ask(items: Iterable[Any]) -> Iterator[dict[str, Any]]:
        for _ in items:
            pass
        found = facts()
        if question is not None and found["release"] == release:
            found |= answers(question)
        yield found

    return ask


def answers(question: bytes) -> dict[str, Any]:
    """Return the answers of this process to a question, or why there are none."""
    try:
        return {"answers": list(pickle.loads(question)([None]))}  # noqa: S301 - the driver's own, by its connection
    except Exception as error:  # noqa: BLE001 - it is said of this worker
        return {"error": " ".join(f"{type(error).__name__}: {error}".split())}


def facts() -> dict[str, Any]:
    """Return the facts of this process's machine and Python."""
    local = next((os.environ[name] for name in FOLDER_VARIABLES if os.environ.get(name)), "").split(",")[0]
    return {
        "host": os.uname().nodename,
        "folder": local,
        "clock": time.time(),
        "python": platform.python_version(),
        "prefix": sys.prefix,
        "release": _release(),
        "pyarrow": _version("pyarrow"),
        "free": {each: _free(each) for each in sorted({local, _temporary()} - {""})},
        "closed": _closed(local),
    }


def _release() -> str:
    """Return the release of Holdfast as jobs see it; "" for none."""
    try:
        return str(importlib.import_module("holdfast").__version__)
    except ImportError:
        return ""


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


def _temporary() -> str:
    try:
        return tempfile.gettempdir()
    except OSError:  # there is room in none
        return os.environ.get("TMPDIR") or "/tmp"  # noqa: S108 - where Python would have put files


def _free(folder: str) -> int:
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return 0


def _closed(folder: str) -> str:
    """Return the folder at or above this one that is open to its owner alone; "" where none is."""
    for each in (Path(folder), *Path(folder).parents) if folder else ():
        try:
            if not stat.S_IMODE(each.stat().st_mode) & (stat.S_IRWXG | stat.S_IRWXO):
                return str(each)
        except OSError:
            continue
    return ""
