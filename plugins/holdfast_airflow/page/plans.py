"""Plans of a compaction and of a truncation, as the page shows them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Literal

from holdfast.archive.maintenance.compaction import check_format
from holdfast.archive.maintenance.retention import parse_rules
from holdfast.operations.plans import planned_compaction, planned_truncation
from holdfast.operations.requests.compaction import CompactionRequest
from holdfast.operations.requests.truncation import TruncationRequest
from holdfast.replication.log.settings import COORDINATION_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.archive import Archive
    from holdfast.config.archives_model import ArchiveConfig

PlannedOperation = Literal["compaction", "truncation"]

MOST = 200
"""Entries of a list that are sent; of a longer one the newest, and how many more there are."""


def plan(operation: PlannedOperation, archive: Archive, config: ArchiveConfig) -> dict[str, Any]:
    """Return an operation's plan, as `--dry-run --json` has it.

    Of restore points, only the runs are sent. Requests: one, and a few of the coordination store where the archive has
    replicas.

    :raises HoldfastError: it would be refused; the sentence says why.
    """
    return _compaction(archive, config) if operation == "compaction" else _truncation(archive, config)


def _compaction(archive: Archive, config: ArchiveConfig) -> dict[str, Any]:
    check_format(archive)
    request = CompactionRequest().configured(config.compaction)
    planned = planned_compaction(archive, request, coordination=_coordination(config))
    groups = planned["joined"]
    return {
        **planned,
        **_newest("joined", sorted(groups, key=lambda group: str(group["to"]))),
        "blocks": sum(group["blocks"] for group in groups),
        "bytes_before": sum(group["bytes_before"] for group in groups),
    }


def _truncation(archive: Archive, config: ArchiveConfig) -> dict[str, Any]:
    request = TruncationRequest(keep=tuple(config.keep.rules()), dry_run=True)
    planned = planned_truncation(archive, request, coordination=_coordination(config))
    lists = ("restorable_before", "restorable_after")
    sources = []
    for source in planned.sources:
        summary = {**source.summary(), **_newest("runs", source.runs())}
        for name in lists:
            summary |= _newest(name, summary[name])
        sources.append(summary)
    return {"dry_run": True, "keep": str(parse_rules(request.keep)), **planned.summary(), "sources": sources}


def _coordination(config: ArchiveConfig) -> str | None:
    return os.environ.get(COORDINATION_VARIABLE) or config.store


def _newest(name: str, entries: Sequence[Any]) -> dict[str, Any]:
    return {name: list(entries[-MOST:]), f"{name}_left_out": max(0, len(entries) - MOST)}
