"""Entries of the update log that only one replica had, whose place is destroyed."""

from __future__ import annotations

import shutil
from collections.abc import Callable

from holdfast.archive import Change
from holdfast.archive.format.block import Block, Coverage, Stream
from holdfast.archive.format.state import State
from holdfast.replication.log import log
from tests.support.replicas.replicated import Replicas, made_backup, nothing, remove

STREAM = Stream(slot="s", publication="s", publication_oid=1, position="0/1", opened=True)


def append(given: Replicas, name: str, make: Callable[[Block], Block], source: str = "shop_db") -> Block:
    """Append a made-up backup through a replica."""
    archive = given.open(name)
    _, plan = made_backup(archive.store, source)
    (block,) = plan(archive.state).add
    block = make(block)
    archive.add(
        lambda state: Change("backup", add=(block,), expected_ends={source: state.ends.get(source)}),
        check=nothing,
        fence=None,
    )
    return block


def full(end: str) -> Callable[[Block], Block]:
    """A full backup that begins to follow its source."""
    return lambda block: block.model_copy(
        update={
            "covers": block.covers.model_copy(update={"to_position": end}),
            "stream": STREAM.model_copy(update={"position": end}),
        }
    )


def changes(start: str, end: str) -> Callable[[Block], Block]:
    """Changes from one position to another."""
    return lambda block: block.model_copy(
        update={
            "kind": "changes",
            "covers": Coverage(
                from_position=start, to_position=end, from_time=block.covers.from_time, to_time=block.covers.to_time
            ),
            "stream": STREAM.model_copy(update={"position": end, "opened": False}),
        }
    )


def ends(given: Replicas, source: str = "shop_db") -> log.Ends:
    return given.coordination.run(lambda c: log.ends_of(c, given.archive, source))


def destroyed(given: Replicas, name: str) -> None:
    """The place of a replica is gone, and it was forgotten."""
    shutil.rmtree(given.folder / name)
    given.coordination.run(lambda c: remove(c, given.archive, name, force=True))


def equal(given: Replicas, *names: str) -> State:
    """Sync replicas; they are equal and whole then."""
    for name in names:
        given.sync(name)
    states = [given.state(name) for name in names]
    assert all(given.is_whole(name) for name in names)
    assert len({frozenset(state.blocks) for state in states}) == 1
    for source in states[0].ends:
        assert {(state.ends.get(source), state.streams.get(source)) for state in states} == {
            (states[0].ends.get(source), states[0].streams.get(source))
        }
        assert ends(given, source) == (states[0].ends.get(source, ""), states[0].streams.get(source, ""))
    return states[0]
