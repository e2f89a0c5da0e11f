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

from holdfast.common.errors import HoldfastError, UsageError
from holdfast.sources.postgresql.connection.server import embedded_programs
from holdfast.sources.postgresql.dump.client_floors import (
    LIBPQ,
    LIBPQ_REMEDY,
    Release,
    floor_from,
    libpq_release,
    why_unsafe,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from holdfast.sources.postgresql.connection.address import Address

_OLDER_CLIENT = "invalid URI query parameter"
"""What a program says of an address with a parameter that newer ones know."""

_LINE = 200
"""Characters of a line that a program says; it repeats whole queries that have failed."""


def candidates(name: str) -> Iterator[Path]:
    """Yield the possible paths of a program.

    They are in HOLDFAST_PG_BIN, PATH, Debian's folders and the embedded wheel.
    """
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


def find(name: str, *, at_least: int, among: Iterable[Path] | None = None) -> Path | None:
    """Return the oldest suitable program: one of the server's own major version if there is one.

    A safe one goes before all that are below their floor, see `client_floors`.

    :param at_least: the server's major version; an older pg_dump refuses a newer server.
    :param among: the paths to choose from; None: `candidates`.
    """
    paths = candidates(name) if among is None else among
    known = {path: version for path in paths if path.exists() and (version := version_of(path))}
    suitable = [
        (why_unsafe(name, version) != "", version.major, path)
        for path, version in known.items()
        if version.major >= at_least
    ]
    return min(suitable, key=lambda each: each[:2])[2] if suitable else None


def need(name: str, *, at_least: int, among: Iterable[Path] | None = None) -> Path:
    """Return a suitable program.

    :param at_least, among: as `find` takes them.
    :raises HoldfastError: there is none; says what to install.
    """
    found = find(name, at_least=at_least, among=among)
    if found is None:
        raise HoldfastError(
            f"no {name} of version {at_least} or newer was found: install postgresql-client-{at_least}, or set "
            "HOLDFAST_PG_BIN to the folder it is in"
        )
    return found


def below_floor(name: str, *, at_least: int, among: Iterable[Path] | None = None) -> tuple[str, str]:
    """Return why the program that would be used is unsafe, and what to do; two empty strings where it is safe.

    One that is not there at all is not unsafe: `need` says so.

    :param at_least, among: as `find` takes them.
    """
    found = find(name, at_least=at_least, among=among)
    version = version_of(found) if found else None
    if version is None or not (why := why_unsafe(name, version)):
        return "", ""
    floor = floor_from(name, version.major)
    return (
        f"{why} ({found})",
        f"install postgresql-client-{floor.major} {floor} or newer, or pip install 'holdfast[embedded]'",
    )


def unsafe_readers(server_version: int) -> tuple[str, ...]:
    """Return sentences about pg_restore and libpq where a restore would use releases below their floors.

    :param server_version: such as 180006; of the server that is restored to.
    """
    by_programs, do = below_floor("pg_restore", at_least=server_version // 10000)
    by_library = why_unsafe(LIBPQ, libpq_release())
    found = ((by_programs, do), (by_library, LIBPQ_REMEDY))
    return tuple(f"{why}: the restore goes on; {remedy}" for why, remedy in found if why)


def run(program: Path, arguments: list[str], address: Address) -> tuple[str, ...]:
    """Run a program against a database and return its warnings.

    The password goes by environment.

    :raises HoldfastError: it failed; with its first words.
    """
    with begin(program, arguments, address) as end:
        return end()


@contextmanager
def begin(program: Path, arguments: list[str], address: Address) -> Iterator[Callable[[], tuple[str, ...]]]:
    """Run a program like `run` while the block works.

    The yielded function waits for it and returns the warnings.

    The program works under the settings of our own sessions: pg_dump leaves to the role and the database how it writes
    names and constants, and a default or a bound would silently be another one where it was written under others.

    A program that is still running when the block ends is killed.
    """
    command = [str(program), *arguments, "--no-password", "--dbname", address.link()]
    pipe, null = subprocess.PIPE, subprocess.DEVNULL
    with subprocess.Popen(command, env=address.environment(), stdin=null, stdout=pipe, stderr=pipe) as process:

        def end() -> tuple[str, ...]:
            output, errors = process.communicate()
            done = subprocess.CompletedProcess(command, process.returncode, output, errors)
            return _warnings(_succeeded(program, done))

        try:
            yield end
        finally:
            process.kill()


def output_of(program: Path, arguments: list[str]) -> str:
    """Return a program's output, exact to the byte.

    The program needs no database. Written out again, the output is the same.

    :raises HoldfastError: it failed; with its first words.
    """
    done = subprocess.run([program, *arguments], capture_output=True, check=False, stdin=subprocess.DEVNULL)
    return _succeeded(program, done).stdout.decode("utf-8", "surrogateescape")


def _warnings(done: subprocess.CompletedProcess[bytes]) -> tuple[str, ...]:
    return tuple(line.strip() for line in _words(done.stderr).splitlines() if line.strip())


def _succeeded(program: Path, done: subprocess.CompletedProcess[bytes]) -> subprocess.CompletedProcess[bytes]:
    if done.returncode:
        lines = [line for line in _words(done.stderr).splitlines() if line.strip()]
        words = [shorten(line, _LINE, placeholder=" …") for line in lines]
        kind = UsageError if any(_OLDER_CLIENT in line for line in lines) else HoldfastError
        raise kind(f"{program.name} failed: {' '.join(words[:3])[:800]}")
    return done


def _words(said: bytes) -> str:
    return said.decode("utf-8", "replace")
