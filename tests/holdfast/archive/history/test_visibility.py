"""A state without some of its blocks is the state as if they had never been added."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from bench.support.blocks import make_block
from holdfast.archive.format.block import Block, Coverage, Stream
from holdfast.archive.format.model import ArchiveCommit
from holdfast.archive.format.state import State
from holdfast.archive.history import target_resolution
from holdfast.archive.history.visibility import without

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def snapshot(name: str, position: str, *, source: str = "shop_db", opened: bool = True) -> Block:
    stream = Stream(slot="s", position=position, opened=opened, publication="s", publication_oid=1, followed={})
    return make_block(identity=name, source=source, position=position).model_copy(update={"stream": stream})


def changes(name: str, since: str, upto: str, *, source: str = "shop_db") -> Block:
    covers = Coverage(from_position=since, to_position=upto, from_time=NOON, to_time=NOON)
    stream = Stream(slot="s", position=since, publication="s", publication_oid=1, followed={})
    return make_block(identity=name, source=source).model_copy(
        update={"kind": "changes", "covers": covers, "stream": stream}
    )


def state_of(*blocks: Block) -> State:
    """Return the state after a commit for each block."""
    state = State.begun(2)
    for number, block in enumerate(blocks, 1):
        commit = ArchiveCommit(
            sequence=number,
            id=f"c{number}",
            parent=state.tip,
            kind="backup",
            format=2,
            min_reader=2,
            min_writer=2,
            fence=None,
            committed_at=NOON,
            writer="test",
            add=(block,),
        )
        state = state.after([commit])
    return state


def assert_equal(found: State, expected: State) -> None:
    assert (set(found.blocks), found.ends, found.streams) == (set(expected.blocks), expected.ends, expected.streams)


def test_the_last_changes_of_a_source_are_as_if_they_had_never_been_added() -> None:
    begun = (snapshot("a", "0/100"), changes("b", "0/100", "0/200"))
    state = state_of(*begun, changes("c", "0/200", "0/300"))
    assert_equal(without(state, {"c"}), state_of(*begun))
    assert target_resolution.resolve(without(state, {"c"}), None, "shop_db", "latest").position == 0x200  # type: ignore[arg-type]


def test_changes_that_follow_on_hidden_ones_are_hidden_too() -> None:
    begun = snapshot("a", "0/100")
    state = state_of(begun, changes("b", "0/100", "0/200"), changes("c", "0/200", "0/300"))
    assert_equal(without(state, {"b"}), state_of(begun))


def test_changes_that_follow_on_what_was_made_once_more_are_shown() -> None:
    begun, later = snapshot("a", "0/100"), changes("d", "0/200", "0/300")
    state = state_of(begun, changes("b", "0/100", "0/200"), changes("c", "0/100", "0/200"), later)
    assert_equal(without(state, {"b"}), state_of(begun, changes("c", "0/100", "0/200"), later))


def test_a_source_whose_only_backup_is_hidden_has_none() -> None:
    other = snapshot("a", "0/100", source="crm")
    state = state_of(other, snapshot("b", "0/200"))
    assert_equal(without(state, {"b"}), state_of(other))


def test_other_sources_stay_as_they_are_at_the_same_positions() -> None:
    crm = (snapshot("a", "0/100", source="crm"), changes("b", "0/100", "0/200", source="crm"))
    state = state_of(crm[0], snapshot("c", "0/100"), crm[1])
    assert_equal(without(state, {"c"}), state_of(*crm))


@pytest.mark.parametrize("hidden", [set(), {"never here"}])
def test_nothing_changes_where_nothing_of_it_is_here(hidden: set[str]) -> None:
    state = state_of(snapshot("a", "0/100"))
    assert without(state, hidden) is state
