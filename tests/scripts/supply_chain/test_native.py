"""Libraries inside of wheels are found, with the versions that they say of themselves."""

from __future__ import annotations

import platform
import zipfile
from importlib.metadata import distribution
from pathlib import Path

import psycopg
import pytest

from scripts.supply_chain.native import UNKNOWN, java_libraries, libpq_version, native

on_x86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="the code of libpq is read on x86-64 alone")


def inside(wheel: str, part: str) -> Path:
    """Return the file of an installed wheel whose path contains a text."""
    return next(Path(str(each.locate())) for each in distribution(wheel).files or () if part in str(each))


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"\0OpenSSL 3.3.0 9 Apr 2024\0", ("openssl", "3.3.0")),
        (b"\0OpenSSL 1.1.1w  11 Sep 2023\0", ("openssl", "1.1.1w")),
        (b"\0 inflate 1.3.1 Copyright 1995-2024 Mark Adler \0", ("zlib", "1.3.1")),
        (b"\0libcurl/8.23.0\0", ("curl", "8.23.0")),
        (b"KRB5_BRAND: krb5-1.22.2-final 1.22.2 20260129\0", ("krb5", "1.22.2")),
        (b"postgres (PostgreSQL) 18.6\n\0", ("postgresql", "18.6")),
    ],
)
def test_a_library_is_known_by_what_it_says(content: bytes, found: tuple[str, str]) -> None:
    assert native("lib.so", content) == {found}


def test_a_text_that_only_names_a_library_is_none() -> None:
    assert native("lib.so", b"needs OpenSSL 3.0.0 or newer\0libcurl is missing\0") == set()


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("libldap-fb847fea.so.2.0.200", "libldap"),
        ("libgfortran-040039e1-0352e75f.so.5.0.0", "libgfortran"),
        ("libcrypto-3a0647ea.so.3", "openssl"),
    ],
)
def test_a_grafted_library_without_a_version_is_told_all_the_same(file: str, name: str) -> None:
    assert native(file, b"\x7fELF") == {(name, UNKNOWN)}


@on_x86
def test_the_version_of_libpq_is_the_one_that_it_would_tell() -> None:
    number = psycopg.pq.version()
    library = inside("psycopg-binary", "/libpq-")
    assert libpq_version(library.read_bytes()) == f"{number // 10_000}.{number % 10_000}"


@on_x86
def test_what_is_linked_into_the_driver_is_found() -> None:
    found = dict(native("driver.so", inside("adbc-driver-postgresql", ".so").read_bytes()))
    assert found.keys() == {"libpq", "openssl"}


@pytest.mark.parametrize("content", [b"PQlibVersion", b"\x7fELF PQlibVersion", b"nothing"])
def test_what_is_no_libpq_has_no_version(content: bytes) -> None:
    assert libpq_version(content) is None


def test_java_archives_tell_what_is_in_them(tmp_path: Path) -> None:
    jar = tmp_path / "both.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        text = "#made\nversion = 1.2\ngroupId=org.example\nartifactId=one\n"
        archive.writestr("META-INF/maven/org.example/one/pom.properties", text)
        archive.writestr("META-INF/maven/org.example/two/pom.properties", "groupId=org.example\n")
    assert list(java_libraries(jar)) == [("org.example/one", "1.2")]
