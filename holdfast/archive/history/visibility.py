"""State with some blocks hidden, for readers to whom these do not count yet, or not any more."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from holdfast.archive.format.state import stream_end
from holdfast.archive.history.coverage import blocks_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from holdfast.archive.format.block_ref import Placed
    from holdfast.archive.format.state import State


def without(state: State, hidden: Collection[str]) -> State:
    """Return the state without some blocks and changes that follow on them alone; no commit follows on it."""
    if not any(key in state.blocks for key in hidden):
        return state
    shown = _shown(state, hidden)
    rest = replace(state, blocks=shown)
    ends, streams = dict(state.ends), dict(state.streams)
    for source in {placed.source for key, placed in state.blocks.items() if key not in shown}:
        ends.pop(source, None)
        streams.pop(source, None)
        for placed in blocks_of(rest, source):
            if placed.head.after is None:
                ends[source] = placed.head.covers.to_position
                if end := stream_end(placed.head):
                    streams[source] = end
    return replace(rest, ends=ends, streams=streams)


def _shown(state: State, hidden: Collection[str]) -> Mapping[str, Placed]:
    shown: dict[str, Placed] = {}
    missing: set[tuple[str, str]] = set()
    """Positions of sources that nothing which is shown has come to."""
    for key, placed in sorted(state.blocks.items(), key=lambda item: item[1].number):
        source, block = placed.source, placed.head
        ends = {(source, end)} if (end := stream_end(block)) else set()
        if key in hidden or (block.kind == "changes" and (source, block.covers.from_position) in missing):
            missing |= ends
        else:
            shown[key] = placed
            missing -= ends
    return shown
