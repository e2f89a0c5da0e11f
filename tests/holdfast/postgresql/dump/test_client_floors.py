"""Floors of client programs: what the table says, and that what our own set-up brings is above it."""

from __future__ import annotations

import pytest

from holdfast.postgresql.connection.server import embedded_programs
from holdfast.postgresql.dump import client_floors, programs
from holdfast.postgresql.dump.client_floors import LIBPQ, Release


@pytest.mark.parametrize(
    ("client", "release", "cves"),
    [
        ("pg_dump", Release(17, 5), 5),
        ("pg_dump", Release(17, 6), 3),
        ("pg_dump", Release(16, 14), 2),
        ("pg_dump", Release(18, 0), 3),
        ("pg_dump", Release(18, 6), 0),
        ("pg_dump", Release(19, 0), 0),
        ("pg_restore", Release(18, 4), 1),
        ("pg_restore", Release(15, 13), 3),
        (LIBPQ, Release(18, 3), 1),
        (LIBPQ, Release(16, 14), 0),
        (LIBPQ, Release(12, 22), 1),
        ("postgres", Release(14, 0), 0),
    ],
)
def test_a_release_has_what_was_mended_after_it(client: str, release: Release, cves: int) -> None:
    assert client_floors.why_unsafe(client, release).count("CVE-") == cves


def test_a_version_that_nobody_mends_any_more_has_no_floor() -> None:
    assert client_floors.floor_of("pg_dump", 13) is None
    said = client_floors.why_unsafe("pg_dump", Release(13, 23))
    assert said.startswith("pg_dump 13.23 is of a version that no release mends any more: it has CVE-2026-6477")
    assert client_floors.floor_from("pg_dump", 12) == Release(14, 24)
    assert client_floors.floor_from("pg_dump", 20) == Release(20, 0)


def test_the_clients_of_our_own_set_up_are_above_their_floors() -> None:
    assert client_floors.why_unsafe(LIBPQ, client_floors.libpq_release()) == ""
    folder = embedded_programs()
    assert folder is not None
    for name in ("pg_dump", "pg_restore"):
        release = programs.version_of(folder / name)
        assert release is not None
        assert client_floors.why_unsafe(name, release) == ""
    assert client_floors.why_unsafe(LIBPQ, Release(16, 14)) == ""  # of the server of that version that tests run
