"""Contents of a container image, as what is installed in it says: Debian's packages, Python's, and programs of Go."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

from packaging.utils import canonicalize_name

PROGRAMS = "/usr/local/bin"
"""Where the Dockerfile puts programs that are of no package."""

_LIST_DEBIAN = r"dpkg-query --show --showformat '${Package}\t${Version}\t${Architecture}\t${source:Package}\n'"
_LIST_PYTHON = (
    "test ! -x /opt/holdfast/bin/python || /opt/holdfast/bin/python -c "
    "'import importlib.metadata as m; [print(d.name, d.version) for d in m.distributions()]'"
)
_DEPENDENCY = re.compile(r"^(?:dep|=>)\t(\S+)\t(v\S+)", re.MULTILINE)
_MODULE = re.compile(r"^mod\t(\S+)\t(v\S+)", re.MULTILINE)
_GO = b"\xff Go buildinf:"
_GO_HEADER = 32
_MARK = 16


class EngineError(Exception):
    """Container engine that does not do what it is asked for."""


@dataclass(frozen=True, order=True)
class Found:
    """Something in an image.

    :param kind: as package URLs have it: `deb`, `pypi` or `golang`.
    :param source: Debian's source package; "" for others.
    """

    kind: str
    name: str
    version: str
    architecture: str = ""
    source: str = ""


def contents(image: str) -> list[Found]:
    """Return what is in an image.

    :raises EngineError: the image is not there, or the engine does not answer.
    """
    found = {*debian(_run(image, _LIST_DEBIAN).decode()), *python(_run(image, _LIST_PYTHON).decode())}
    for name in _run(image, f"ls {PROGRAMS}").decode().split():
        found |= {*go_modules(_run(image, f"cat {PROGRAMS}/{name}"))}
    return sorted(found)


def _run(image: str, command: str) -> bytes:
    words = ["docker", "run", "--rm", "--network", "none", "--entrypoint", "sh", image, "-c", command]
    try:
        done = subprocess.run(words, capture_output=True, check=False)
    except FileNotFoundError as error:
        raise EngineError("there is no container engine: install Docker") from error
    if done.returncode:
        raise EngineError(f"{image} does not say what is in it: {done.stderr.decode(errors='replace').strip()[-500:]}")
    return done.stdout


def debian(listing: str) -> Iterator[Found]:
    """Yield the packages that dpkg lists, a line each: name, version, architecture and source."""
    for line in listing.splitlines():
        name, version, architecture, source = line.split("\t")
        yield Found("deb", name, version, architecture, source)


def python(listing: str) -> Iterator[Found]:
    """Yield Python's packages, a line each: name and version."""
    for line in listing.splitlines():
        name, version = line.split()
        yield Found("pypi", canonicalize_name(name), version)


def go_modules(program: bytes) -> Iterator[Found]:
    """Yield the modules that a program of Go was built from; none where it is of something else.

    Source: Go's package debug/buildinfo, which says how programs since Go 1.18 carry them: behind a header two strings,
    each with its length before it, the version of Go and the modules.
    """
    begin = program.find(_GO)
    if begin < 0:
        return
    go, rest = _string(program, begin + _GO_HEADER)
    modules, _ = _string(program, rest)
    text = modules[_MARK:-_MARK].decode(errors="replace")
    yield Found("golang", "stdlib", go.decode().removeprefix("go"))
    for name, version in (*_MODULE.findall(text), *_DEPENDENCY.findall(text)):
        yield Found("golang", name, version)


def _string(program: bytes, at: int) -> tuple[bytes, int]:
    """Return a string with its length before it, as a varint, and where it ends."""
    length = shift = 0
    while True:
        byte = program[at]
        length |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return program[at : at + length], at + length
