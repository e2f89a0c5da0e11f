"""Anybody who may log in to a source: he writes messages as Holdfast's into its log, and moves no mark by that."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from holdfast.archive.history.restore_points import marks_of
from holdfast.operations.marks import set_mark
from holdfast.postgresql.connection.address import Address
from tests.support.following.followed import Followed, open_followed

pytestmark = pytest.mark.service


@pytest.fixture
def followed(address: Address, tmp_path: Path) -> Iterator[Followed]:
    with open_followed(address, tmp_path / "archive") as made:
        made.make(["create table public.t (id int primary key)", "create role anybody login"])
        made.back_up()
        yield made
        made.make(["drop role anybody"])


def write(followed: Followed, content: str, prefix: str = "holdfast") -> None:
    """Write a message as a role without any right."""
    with psycopg.connect(followed.address.conninfo(), autocommit=True) as session:
        session.execute("set role anybody")
        session.execute("select pg_logical_emit_message(true, %s, %s)", (prefix, content))


def mark(followed: Followed, name: str) -> str:
    return set_mark(followed.archive(), [followed.store], followed.address, "shop", name).position


def positions(followed: Followed) -> dict[str, str]:
    return {name: each.position for name, each in marks_of(followed.archive().state, "shop").items()}


def test_a_forged_mark_moves_none_and_is_named(followed: Followed, capfd: pytest.CaptureFixture[str]) -> None:
    mark(followed, "before 4.2")
    followed.make(["insert into public.t values (1)"])
    write(followed, json.dumps({"mark": "before 4.2"}))
    write(followed, json.dumps({"mark": "theirs", "id": "0" * 32}))
    followed.back_up()
    assert list(positions(followed)) == ["before 4.2"]
    (found,) = marks_of(followed.archive().state, "shop").values()
    assert found.id
    said = capfd.readouterr().err
    assert "was not set in this archive, counts for nothing (2): 'before 4.2', 'theirs'" in said
    write(followed, json.dumps({"mark": "before 4.2", "id": found.id}))  # repeated by somebody who has read it
    before = positions(followed)
    followed.make(["insert into public.t values (2)"])
    followed.back_up()
    assert positions(followed) == before


HOSTILE = {
    "deep": "[" * 100_000,
    "a large number": f'{{"objects": [[1259, {10**4000}]], "mark": {10**4000}}}',
    "half a character": '{"mark": "\\ud800"}',
    "an object": '{"mark": {"id": 1}}',
    "nothing": '{"mark": null, "id": []}',
    "long": json.dumps("x" * 10_000),
}


def test_no_message_keeps_a_backup_from_going_on(followed: Followed) -> None:
    for content in HOSTILE.values():
        for prefix in ("holdfast", "holdfast_definition"):
            write(followed, content, prefix)
    followed.make(["insert into public.t values (1)"])
    mark(followed, "after")
    followed.back_up()
    assert list(positions(followed)) == ["after"]
