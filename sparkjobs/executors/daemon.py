"""Daemon that forks Spark's Python workers, with the imports of all tasks done before.

Spark's own, with the imports made once instead of in each worker. Nothing may be imported here that starts a thread,
as numpy and pyarrow do unless they are told not to: threads do not survive a fork.

Spark starts it with its first task, which then waits for the imports. Where Spark runs beside its driver, that one
prepares a daemon while Java starts; the one that Spark starts hands over to it what it was started with.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import secrets
import select
import socket
import struct
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sparkjobs.executors.without_pandas import hide_pandas

if TYPE_CHECKING:
    from collections.abc import Mapping

PREPARED = "HOLDFAST_PREPARED_DAEMON"
"""Where a prepared daemon waits, and which Python it runs in."""

_LISTENER = "--listener="
_DONE = b"+"
_READ_AT_START = ("LD_", "MALLOC_", "GLIBC_TUNABLES", "PYTHONMALLOC")
"""How variables begin that a process reads when it starts, and never again."""

_STANDARD = (0, 1, 2)
_CREDENTIALS = struct.Struct("3i")
"""Process, user and group of whoever is at the other end. Source: unix(7), SO_PEERCRED."""

_IMPORTED = (
    "pyspark.daemon",
    "pyspark.worker",
    "sparkjobs.executors.spark_task",
    "sparkjobs.tasks.pieces",
    "sparkjobs.tasks.changes",
    "sparkjobs.tasks.restore_files",
)

_NO_THREADS = {"OPENBLAS_NUM_THREADS": "1", "JE_ARROW_MALLOC_CONF": "background_thread:false"}
"""Read by numpy's and pyarrow's libraries when they are loaded."""


@dataclass(frozen=True)
class Prepared:
    """A daemon started before Spark asks for one, with its imports done by then.

    :param address: what `PREPARED` has to say in the environment of the daemon that Spark starts.
    :param process: ends when its standard input is closed, as this process's end does; or, once it is Spark's, with it.
    """

    address: str
    process: subprocess.Popen[bytes]


def prepare(environment: Mapping[str, str]) -> Prepared:
    """Start a daemon.

    :param environment: what workers are to have beside this process's own: some of it is read when a process starts.
    """
    name = f"holdfast-{secrets.token_hex(16)}"
    with _unix_socket() as listener:
        listener.bind(f"\0{name}")
        listener.listen(1)
        process = subprocess.Popen(
            [sys.executable, "-m", __name__, f"{_LISTENER}{listener.fileno()}"],
            env={**os.environ, "PYTHONHASHSEED": "0", **environment},  # as Spark has it
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            pass_fds=[listener.fileno()],
        )
    return Prepared(f"{name}:{sys.executable}", process)


def _unix_socket() -> socket.socket:
    return socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)


def _is_ours(connection: socket.socket) -> bool:
    """Return whether the other end belongs to this user.

    Such addresses are open to all, and free once they are left.
    """
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return bool(_CREDENTIALS.unpack(found)[1] == os.getuid())


def _hand_over(prepared: str) -> bool:
    """Hand the work of this daemon over to a prepared one, and wait for its end.

    Return False where none takes it.
    """
    name, _, python = prepared.partition(":")
    if python != sys.executable:
        return False
    with _unix_socket() as connection:
        try:
            connection.connect(f"\0{name}")
            if not _is_ours(connection):
                return False
            socket.send_fds(connection, [b"\0"], _STANDARD)
            connection.sendall(json.dumps([sys.argv, dict(os.environ)]).encode())
            connection.shutdown(socket.SHUT_WR)
            if connection.recv(1) != _DONE:
                return False
        except OSError:  # it is another one's already, or gone
            return False
        with suppress(OSError):
            connection.recv(1)
    return True


def _take_over(listener: socket.socket) -> socket.socket:
    """Wait for the daemon that Spark starts, and take its place.

    End the process where none comes any more.

    :return: what it waits at, for as long as it is open.
    """
    while True:
        ready, _, _ = select.select([sys.stdin, listener], [], [])
        if sys.stdin in ready:
            sys.exit(0)
        connection, _ = listener.accept()
        if _is_ours(connection) and _became(connection):
            listener.close()
            return connection
        connection.close()


def _became(connection: socket.socket) -> bool:
    """Take over the arguments, environment and streams of the daemon at the other end.

    Return False where it gave up, or differs in variables that are read only when a process starts.
    """
    _, given, _, _ = socket.recv_fds(connection, 1, len(_STANDARD))
    try:
        with connection.makefile("rb") as told:
            text = told.read()
        arguments, environment = json.loads(text) if text else ([], {})
        if not arguments or _at_start(environment) != _at_start(os.environ):
            return False
        for mine, theirs in zip(_STANDARD, given, strict=True):
            os.dup2(theirs, mine)
    finally:
        for each in given:
            os.close(each)
    sys.argv = arguments
    os.environ.clear()
    os.environ.update(environment)
    connection.sendall(_DONE)
    return True


def _at_start(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(_READ_AT_START)}


def _import() -> None:
    hide_pandas()
    os.environ |= _NO_THREADS
    for name in _IMPORTED:
        importlib.import_module(name)
    # Spark's workers collect garbage after each task: what stays for ever need not be looked at each time.
    gc.freeze()


def main() -> None:
    """Import, then fork a worker whenever Spark asks for one."""
    listener = next((each.removeprefix(_LISTENER) for each in sys.argv[1:] if each.startswith(_LISTENER)), None)
    if listener is None and PREPARED in os.environ and _hand_over(os.environ[PREPARED]):
        return
    _import()
    spark = _take_over(socket.socket(fileno=int(listener))) if listener else None
    from pyspark.daemon import manager  # it takes a tenth of a second, which whoever hands over has no need of

    try:
        manager()
    finally:
        if spark is not None:
            spark.close()


if __name__ == "__main__":
    main()
