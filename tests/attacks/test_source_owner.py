"""Somebody who owns a source: whatever its objects are called, and its rows hold, no terminal obeys it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.connection.sql import ident, literal
from tests.attacks.test_store_writer import EVIL, PLAIN, WIDE, assert_harmless
from tests.support.jobs.command import Finished
from tests.support.jobs.command_here import run_here

pytestmark = pytest.mark.service

NAME = EVIL.replace("\x00", "")[:40]
"""PostgreSQL has no NUL in a name, and at most 63 bytes."""


def objects(name: str) -> tuple[str, ...]:
    """Return statements for objects of every kind that commands name."""
    called, words = ident(name), literal(name)
    return (
        f"create schema {called}",
        f"create table {called}.{called} ({called} int primary key, words text)",
        f"insert into {called}.{called} values (1, {words})",
        f"create unlogged table {called}.unlogged (id int)",
        f"create view {called}.view as select {called} from {called}.{called}",
        f"create table {called}.unreadable (plan pg_node_tree)",
        f"comment on schema {called} is {words}",
    )


def session_of(place: Path, database: Address, target: Address) -> list[Finished]:
    """Return what the commands of one source's life say."""
    archive = str(place / "archive")
    source = ("--source", database.url)
    assert run_here("init", archive).code == 0
    return [
        run_here("source", "check", database.url, address=database, more=WIDE),
        run_here("source", "setup", database.url, "--role", "postgres", address=database, more=WIDE),
        run_here("backup", archive, *source, "--kind", "full", address=database, more=WIDE),
        run_here("backup", archive, *source, "--kind", "full", "--tables", "*.*", address=database, more=WIDE),
        run_here("points", archive, "--tables", "*", more=WIDE),
        run_here("query", archive, "select * from information_schema.tables", more=WIDE),
        run_here("restore", archive, "--to", target.url, "--dry-run", address=target, more=WIDE),
        run_here("restore", archive, "--to", target.url, address=target, more=WIDE),
        run_here("restore", archive, "--to", target.url, address=target, more=WIDE),
        run_here("verify", archive, more=WIDE),
    ]


def _filled(database: Address, statements: Sequence[str]) -> Address:
    with connect(database) as session:
        for each in statements:
            session.execute(each.encode())
    return database


def test_names_of_a_source_move_no_cursor_and_make_no_line(
    tmp_path: Path, new_database: Callable[..., Address]
) -> None:
    """What is shown of a hostile source is compared with what is shown of another of the same shape."""
    shown = {}
    for name in (PLAIN, NAME):
        place = tmp_path / ("plain" if name == PLAIN else "evil")
        place.mkdir()
        statements = objects(name)
        blocking = session_of(place, _filled(new_database(), statements), new_database())
        (place / "archive").rename(place / "refused")
        shown[name] = [*blocking, *session_of(place, _filled(new_database(), statements[:5]), new_database())]
    assert [each.code for each in shown[NAME]] == [each.code for each in shown[PLAIN]]
    for evil, plain in zip(shown[NAME], shown[PLAIN], strict=True):
        assert_harmless(evil)
        assert len(evil.out.split("\n")) == len(plain.out.split("\n")), evil.out
        assert len(evil.err.split("\n")) == len(plain.err.split("\n")), evil.err
    assert any(r"\x1b]0;owned" in each.out + each.err for each in shown[NAME])
