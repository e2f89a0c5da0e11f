"""What is in an image, read from the words of what lists it, and from programs."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from scripts.supply_chain.image_contents import EngineError, Found, contents, debian, go_modules, python

MODULES = (
    "path\tgithub.com/versity/versitygw/cmd/versitygw\n"
    "mod\tgithub.com/versity/versitygw\tv1.8.0\th1:sum=\n"
    "dep\tgithub.com/gofiber/fiber/v2\tv2.52.9\n"
    "=>\tgithub.com/other/fiber\tv2.0.0\th1:sum=\n"
    "build\t-compiler=gc\n"
)


def program(go: str, modules: str) -> bytes:
    """What a linker of Go leaves in a program."""
    strings = b""
    for each in (go.encode(), b"<" * 16 + modules.encode() + b">" * 16):
        length, size = len(each), b""
        while length > 0x7F:
            size, length = size + bytes([length & 0x7F | 0x80]), length >> 7
        strings += size + bytes([length]) + each
    return b"\x7fELF" + b"code" * 9 + (b"\xff Go buildinf:\x08\x02").ljust(32, b"\0") + strings + b"more code"


def test_debians_packages_have_a_version_an_architecture_and_a_source() -> None:
    listing = "libc6\t2.36-9+deb12u10\tamd64\tglibc\ntini\t0.19.0-1\tamd64\ttini\n"
    assert [*debian(listing)] == [
        Found("deb", "libc6", "2.36-9+deb12u10", "amd64", "glibc"),
        Found("deb", "tini", "0.19.0-1", "amd64", "tini"),
    ]


def test_packages_of_python_have_their_usual_names() -> None:
    assert [*python("PyYAML 6.0.3\nzope.interface 8.0\n")] == [
        Found("pypi", "pyyaml", "6.0.3"),
        Found("pypi", "zope-interface", "8.0"),
    ]


def test_a_program_of_go_says_what_it_was_built_from() -> None:
    assert [*go_modules(program("go1.26.1", MODULES))] == [
        Found("golang", "stdlib", "1.26.1"),
        Found("golang", "github.com/versity/versitygw", "v1.8.0"),
        Found("golang", "github.com/gofiber/fiber/v2", "v2.52.9"),
        Found("golang", "github.com/other/fiber", "v2.0.0"),
    ]
    assert [*go_modules(b"\x7fELF of something else")] == []


def test_what_go_itself_says_of_a_real_program_is_the_same() -> None:
    gateway = Path(".work/bin/versitygw")
    if not gateway.exists() or shutil.which("go") is None:
        pytest.skip("there is no versitygw, or no Go")
    said = subprocess.run(["go", "version", "-m", gateway], capture_output=True, text=True, check=True).stdout
    named = {tuple(line.split()[1:3]) for line in said.splitlines() if line.startswith(("\tmod", "\tdep", "\t=>"))}
    found = [each for each in go_modules(gateway.read_bytes()) if each.name != "stdlib"]
    assert {(each.name, each.version) for each in found} == named
    assert len(named) > 20


def test_an_engine_that_is_not_there_is_said_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EngineError, match="there is no container engine"):
        contents("holdfast:local")


def test_what_the_engine_says_of_an_image_that_is_not_there_is_quoted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "docker").write_text("#!/bin/sh\necho 'No such image' >&2\nexit 125\n")
    (tmp_path / "docker").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    with pytest.raises(EngineError, match="holdfast:local does not say what is in it: No such image"):
        contents("holdfast:local")
