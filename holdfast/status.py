"""Status of an archive: its contents by source, and the record that pages and tasks keep."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.archive.archive import IDENTITY_KEY
from holdfast.archive.format.document import iso
from holdfast.archive.history import restore_points
from holdfast.archive.history.coverage import covered_ranges
from holdfast.archive.history.restore_points import waiting_tables

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from holdfast.archive import Archive
    from holdfast.archive.format.block_ref import Placed
    from holdfast.archive.format.state import State
    from holdfast.config.archives_model import SourceConfig


def status_of(archive: Archive) -> dict[str, Any]:
    """Return the contents of an archive, as `status --json` prints them; no request."""
    blocks = archive.state.blocks.values()
    return {
        "archive": archive.identity.id,
        "name": archive.identity.name,
        "url": archive.store.url,
        "format": archive.state.format,
        "min_reader": archive.state.min_reader,
        "min_writer": archive.state.min_writer,
        "commits": archive.state.sequence,
        "blocks": len(blocks),
        "bytes": sum(placed.size for placed in blocks),
        "sources": [_source(archive.state, name) for name in restore_points.source_names(archive.state)],
    }


def record_of(archive: Archive, sources: Mapping[str, SourceConfig]) -> dict[str, Any]:
    """Return the record of an archive: its status, and of each source the facts and limits of its objectives.

    `holdfast.objectives.judge_facts` can judge it at any later time. A source of archives.yaml may have no backup.
    Requests: one, and five a source.
    """
    from holdfast.objectives import facts_of

    status = status_of(archive)
    described = {source["source"]: source for source in status["sources"]}
    names = sorted({*described, *sources})
    return {
        **status,
        "at": iso(archive.store.list(IDENTITY_KEY).now),
        "sources": [
            {
                "source": name,
                **described.get(name, {}),
                **_sizes(archive.state, name),
                "facts": facts_of(archive, name).describe(),
                "objectives": sources[name].objectives.model_dump(exclude_none=True) if name in sources else {},
            }
            for name in names
        ],
    }


def _source(state: State, name: str) -> dict[str, Any]:
    blocks = state.blocks.values()
    return {
        "source": name,
        "backups": len(_of_kind(blocks, name, "snapshot")),
        "changes": len(_of_kind(blocks, name, "changes")),
        "restorable_to": iso(covered_ranges(state, name)[-1].end),
        "rows": (_of_kind(blocks, name, "snapshot") or _of_kind(blocks, name, "changes"))[-1].rows,
        "waiting": [each.model_dump(mode="json") for each in waiting_tables(state, name)],
    }


def _sizes(state: State, name: str) -> dict[str, Any]:
    full = _of_kind(state.blocks.values(), name, "snapshot")
    found = covered_ranges(state, name)
    return {
        "bytes": sum(placed.size for placed in state.blocks.values() if placed.source == name),
        "last_full": iso(full[-1].head.covers.to_time) if full else None,
        "restorable_from": iso(min(each.start for each in found)) if found else None,
    }


def _of_kind(blocks: Iterable[Placed], source: str, kind: str) -> list[Placed]:
    """Return a source's blocks of a kind, without supplements for single tables, in the order of their commits."""
    own = (placed for placed in blocks if placed.source == source and placed.head.kind == kind)
    return sorted((placed for placed in own if not placed.head.supplement), key=lambda placed: placed.number)
