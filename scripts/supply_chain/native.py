"""Libraries inside of wheels, which no requirements file names: read from the binaries themselves.

Most libraries carry their version as a string; libpq has it as the number that its function PQlibVersion returns.
Spark's Java libraries say it in their archives' metadata.
"""

from __future__ import annotations

import re
import struct
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import Distribution, distributions
from io import BytesIO
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection
from packaging.utils import canonicalize_name

UNKNOWN = ""
"""The version of a library that does not say it."""

_ELF = b"\x7fELF"

_MARKS = {
    "openssl": re.compile(rb"OpenSSL (\d+\.\d+\.\d+[a-z]*) +\d+ [A-Z][a-z]{2} 20\d\d"),
    "zlib": re.compile(rb" (?:deflate|inflate) (\d+(?:\.\d+)+) Copyright"),
    "curl": re.compile(rb"libcurl/(\d+\.\d+\.\d+)"),
    "krb5": re.compile(rb"krb5-(\d+\.\d+(?:\.\d+)?)-final"),
    "openblas": re.compile(rb"OpenBLAS (\d+\.\d+\.\d+)"),
    "postgresql": re.compile(rb"\(PostgreSQL\) (\d+\.\d+)\s*\0"),
}
"""What a library's own code says of its version; the names are those of the security advisories."""

_GRAFTED = re.compile(r"^lib(?P<name>.+?)-[0-9a-f]{8}(?:-[0-9a-f]{8})?\.so")
"""A library that auditwheel put into a wheel, under a name with a hash."""

_SAID_BY = {"crypto": "openssl", "ssl": "openssl", "scipy_openblas64_": "openblas", "gssapi_krb5": "krb5"}
_SAID_BY |= dict.fromkeys(("krb5", "k5crypto", "krb5support", "com_err"), "krb5")
"""Whose part a grafted library is."""

_LIBPQ = "PQlibVersion"
_MOV_EAX, _RET = 0xB8, 0xC3
_ENDBR64 = b"\xf3\x0f\x1e\xfa"


@dataclass(frozen=True, order=True)
class Library:
    """A library inside of a wheel.

    :param kind: `generic` for a native one, `maven` for one of Java's.
    :param name: for Java's: group and artifact, separated by a slash.
    :param wheel: the package that brings it.
    """

    kind: str
    name: str
    version: str
    wheel: str


def libraries() -> list[Library]:
    """Return the libraries inside of all wheels that are installed here."""
    found = {each for wheel in distributions() for each in _libraries_of(wheel)}
    said = {(each.name, each.wheel) for each in found if each.version != UNKNOWN}
    return sorted(each for each in found if each.version != UNKNOWN or (each.name, each.wheel) not in said)


def _libraries_of(wheel: Distribution) -> Iterator[Library]:
    owner = canonicalize_name(wheel.metadata["Name"])
    for entry in wheel.files or ():
        path = Path(str(entry.locate()))
        if path.suffix == ".jar" and path.is_file():
            yield from (Library("maven", name, version, owner) for name, version in java_libraries(path))
        elif (".so" in path.name or path.parent.name == "bin") and path.is_file():
            content = path.read_bytes()
            if content.startswith(_ELF):
                yield from (Library("generic", name, version, owner) for name, version in native(path.name, content))


def native(file_name: str, content: bytes) -> set[tuple[str, str]]:
    """Return the names and versions of the libraries in a binary.

    :param file_name: says what a grafted library is, where its content does not.
    :return: one whose version is not said has `UNKNOWN`.
    """
    found = {(name, one.decode()) for name, mark in _MARKS.items() for one in mark.findall(content)}
    if (version := libpq_version(content)) is not None:
        found.add(("libpq", version))
    if (grafted := _GRAFTED.match(file_name)) is not None:
        name = _SAID_BY.get(grafted["name"], f"lib{grafted['name']}")
        if name not in {each for each, _ in found}:
            found.add((name, UNKNOWN))
    return found


def libpq_version(content: bytes) -> str | None:
    """Return the version of the libpq in a binary, such as '16.2'; None where there is none, or the code is another.

    Its function returns a constant, 160002, which x86-64 code has as the operand of its first instruction.
    Source: PostgreSQL manual, 34.2, PQlibVersion.
    """
    if _LIBPQ.encode() not in content:
        return None
    try:
        code = _code_of(ELFFile(BytesIO(content)), _LIBPQ).removeprefix(_ENDBR64)
    except ELFError:
        return None
    if len(code) < 6 or code[0] != _MOV_EAX or code[5] != _RET:
        return None
    (number,) = struct.unpack("<I", code[1:5])
    return f"{number // 10_000}.{number % 10_000}"


def _code_of(binary: ELFFile, function: str) -> bytes:
    """Return the first bytes of a function, or none."""
    for table in binary.iter_sections():
        if not isinstance(table, SymbolTableSection):
            continue
        for symbol in table.get_symbol_by_name(function) or ():
            if symbol["st_shndx"] == "SHN_UNDEF":
                continue
            section = binary.get_section(symbol["st_shndx"])
            begin = symbol["st_value"] - section["sh_addr"]
            code: bytes = section.data()[begin : begin + 16]
            return code
    return b""


def java_libraries(jar: Path) -> Iterator[tuple[str, str]]:
    """Yield group/artifact and version of what a Java archive says is in it, which may be more than one library."""
    with zipfile.ZipFile(jar) as archive:
        for entry in archive.namelist():
            if entry.startswith("META-INF/maven/") and entry.endswith("/pom.properties"):
                lines = archive.read(entry).decode("utf-8", "replace").splitlines()
                said = dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))
                said = {key.strip(): value.strip() for key, value in said.items()}
                if {"groupId", "artifactId", "version"} <= said.keys():
                    yield f"{said['groupId']}/{said['artifactId']}", said["version"]
