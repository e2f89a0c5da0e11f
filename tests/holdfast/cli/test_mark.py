"""`holdfast mark`: a moment of a source gets a name, in the source's own log."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from holdfast.archive import Archive
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.server import PostgresServer
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.logical.stream import drop_stream, flush_position, open_stream, stream_name
from holdfast.storage import ObjectStore
from tests.support.jobs.command import RunCommand


@pytest.fixture
def stream(
    store: ObjectStore, postgres: PostgresServer, address: Address, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """The stream of a source that archives.yaml calls shop."""
    monkeypatch.setenv("PGPASSWORD", postgres.password)
    sources = f'{{shop: {{url: "{address.url}"}}}}'
    Path("archives.yaml").write_text(
        f"archives: {{a: {{url: '{store.url.removeprefix('file://')}', sources: {sources}}}}}"
    )
    name = stream_name(Archive.open(store).identity.id, "shop")
    open_stream(address, name, ())
    yield name
    with connect(address) as session:
        drop_stream(session, name)


@pytest.mark.service
def test_a_mark_is_in_the_log_just_before_the_position_that_is_told(
    holdfast: RunCommand, store: ObjectStore, stream: str, address: Address
) -> None:
    done = holdfast("mark", "a", 'before 4.2 — "ü"', "--json")
    assert (done.code, done.value["mark"], done.value["source"]) == (0, 'before 4.2 — "ü"', "shop")
    assert abs((datetime.now(UTC) - datetime.fromisoformat(done.value["at"])).total_seconds()) < 60
    with connect(address) as session:
        messages = session.execute(
            "select data from pg_logical_slot_peek_binary_changes(%s, %s, null, 'proto_version', '1', "
            "'publication_names', %s, 'messages', 'true') where get_byte(data, 0) = ascii('M')",
            (stream, done.value["position"], stream),
        ).fetchall()
        _, position = flush_position(session)
    assert position >= done.value["position"]
    ((message,),) = messages
    prefix, _, content = message[10:].partition(b"\0")
    assert (message[1], prefix) == (1, b"holdfast")
    said = json.loads(content[4:])
    assert said["mark"] == 'before 4.2 — "ü"'
    assert json.loads(store.get(f"marks/shop/{said['id']}.json"))["name"] == said["mark"]
    shown = holdfast("mark", "a", "v5", "--source", "shop")
    assert shown.out.startswith("marked 'v5' in shop at ")


@pytest.mark.service
def test_a_mark_that_nobody_would_read_is_refused(holdfast: RunCommand, stream: str, address: Address) -> None:
    with connect(address) as session:
        drop_stream(session, stream)
    done = holdfast("mark", "a", "v5")
    assert done.code == 5
    assert f"shop's changes are not backed up into this archive (it has no slot {stream})" in done.err


def test_the_source_must_be_said_where_it_is_not_the_only_one(holdfast: RunCommand, store: ObjectStore) -> None:
    done = holdfast("mark", store.url, "v5")
    assert done.code == 2
    assert "say which source with --source; archives.yaml names none" in done.err
