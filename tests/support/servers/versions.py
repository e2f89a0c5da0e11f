"""PostgreSQL servers of older versions, and locales, as scripts/setup_postgresql.sh has put them into .work."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NoReturn

import pytest

from holdfast.postgresql.connection.server import PostgresServer

_FOLDER = Path(__file__).parents[3] / ".work" / "postgresql"
_MISSING = _FOLDER / "missing"
# JIT's libraries are not unpacked; a snapshot waits for nobody without wal_level=logical.
_SETTINGS = {"jit": "off", "wal_level": "replica"}


def older_server(major: int) -> PostgresServer:
    """Return a server of an older version; the test is skipped, or fails, where it was not set up."""
    programs = programs_of(major)
    return PostgresServer(programs=programs, settings=_SETTINGS)


def programs_of(major: int) -> Path:
    """Return the folder of an older version's programs; as above."""
    programs = _FOLDER / str(major) / "bin"
    if (_MISSING / str(major)).exists() or not (programs / "initdb").exists():
        _lack(f"PostgreSQL {major}", str(major))
    return programs


def need_locales() -> None:
    """Skip the test, or let it fail, where the locales were not set up."""
    if not (_FOLDER / "locale").is_dir():
        _lack("the locale de_DE", "locales")


def _lack(what: str, name: str) -> NoReturn:
    """End a test: by failing where everything must run (CI=true), else by skipping it."""
    missing = _MISSING / name
    reason = missing.read_text().strip() if missing.exists() else f"{what} is missing: run scripts/setup_postgresql.sh"
    if os.environ.get("CI") == "true":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


@contextmanager
def running(server: PostgresServer) -> Iterator[PostgresServer]:
    """Run a server that knows the locales of the tests: de_DE, also in Latin-1, and tr_TR."""
    with TemporaryDirectory(prefix="holdfast-locales-") as folder:
        if (_FOLDER / "locale").is_dir():
            # Of root's, the server runs as another user, who may not get to where this project lies.
            shutil.copytree(_FOLDER / "locale", folder, dirs_exist_ok=True)
        Path(folder).chmod(0o755)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("LOCPATH", folder)
            server.start()
        try:
            yield server
        finally:
            server.stop()
