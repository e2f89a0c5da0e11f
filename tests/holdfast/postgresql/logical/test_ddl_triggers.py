"""What a message of the DDL event triggers names."""

from __future__ import annotations

import hashlib

import pytest

from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.logical import ddl_triggers
from holdfast.postgresql.logical.ddl_triggers import touched_by
from holdfast.postgresql.setup.stream_rights import WantedStream, owners_tasks


@pytest.mark.parametrize(
    ("content", "objects"),
    [
        (b'{"tag": "ALTER TABLE", "objects": [[1259, 5], [1249, 5]]}', {(1259, 5), (1249, 5)}),
        (b'{"objects": []}', set()),
        (b'{"objects": null}', None),
        (b'{"objects": [[1259]]}', None),
        (b'{"objects": [[1259, "5"]]}', None),
        (b'{"objects": [[1259, -5]]}', None),
        (b'{"objects": [[true, 5]]}', None),
        (b'{"tag": "ALTER TABLE"}', None),
        (b"[]", None),
        (b"ALTER TABLE", None),
        (b"\xff", None),
        (b'{"objects": [' + b",".join([b"[1, 1]"] * 10_001) + b"]}", None),
    ],
)
def test_a_message_names_objects_or_none(content: bytes, objects: set[tuple[int, int]] | None) -> None:
    assert touched_by(content) == objects


def test_triggers_of_earlier_releases_go_on_telling() -> None:
    """Their text must be what these releases made: that is how they are known."""
    told = hashlib.sha256(ddl_triggers.TAG_BODY.encode()).hexdigest()
    assert told == "8e3a7c95b29f48ee3defe32d3549d55dab7cad3fc40685e1b4b64f966c9a4871"


@pytest.mark.service
def test_triggers_of_earlier_releases_are_in_force_and_not_current(address: Address) -> None:
    with connect(address) as session:
        for statement in ddl_triggers.CREATED:
            session.execute(statement.encode())
        assert ddl_triggers.trigger_version(session)
        assert ddl_triggers.is_current(session)
        session.execute(
            "create or replace function holdfast_log.note() returns event_trigger language plpgsql "
            f"set search_path = pg_catalog as $body${ddl_triggers.TAG_BODY}$body$".encode()
        )
        assert ddl_triggers.trigger_version(session)
        assert not ddl_triggers.is_current(session)
        tasks = owners_tasks(session, WantedStream("holdfast_0123456789abcdef"))
        assert "let the log tell when definitions change" in [task.why for task in tasks]
        session.execute("create table public.still_works (id int primary key)")
