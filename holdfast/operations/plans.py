"""Plans of compactions and truncations, as their `--dry-run` prints them. Nothing is changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.archive.archive import IDENTITY_KEY
from holdfast.archive.format.document import iso
from holdfast.archive.history.restore_points import source_names
from holdfast.archive.maintenance.compaction import CompactionPolicy, plan_compaction
from holdfast.archive.maintenance.consolidation import newest_cut
from holdfast.archive.maintenance.retention import NOTHING, parse_rules
from holdfast.archive.maintenance.truncation import plan_truncation
from holdfast.common.errors import RefusedError
from holdfast.replication.work.replica_maintenance import state_to_plan

if TYPE_CHECKING:
    from holdfast.archive import Archive
    from holdfast.archive.format.block_ref import Placed
    from holdfast.archive.format.state import State
    from holdfast.archive.maintenance.compaction import Group
    from holdfast.archive.maintenance.retention import Rules
    from holdfast.archive.maintenance.truncation import TruncationPlan
    from holdfast.operations.requests.compaction import CompactionRequest
    from holdfast.operations.requests.truncation import TruncationRequest
    from holdfast.replication.log.settings import AnyAddress


def planned_compaction(
    archive: Archive, request: CompactionRequest, *, coordination: AnyAddress = None
) -> dict[str, Any]:
    """Return the groups of blocks that a compaction would join, and the full snapshots that it would make.

    Requests: one; with `consolidate`, also those for the schema at each cut.

    :raises RefusedError: the source of the request cannot be consolidated.
    """
    state = state_to_plan(archive, coordination)
    policy = CompactionPolicy.configured(request.section)
    groups = plan_compaction(state, policy, archive.store.list(IDENTITY_KEY).now, source=request.source)
    cuts, refused = _consolidations(archive, state, request) if request.consolidate else ([], {})
    return {
        "dry_run": True,
        "joined": [_described(group) for group in groups],
        "consolidated": [
            {
                "source": cut.source,
                "restorable_to": iso(cut.head.covers.to_time),
                "position": cut.head.covers.to_position,
            }
            for cut in cuts
        ],
        "not_consolidated": refused,
    }


def _consolidations(archive: Archive, state: State, request: CompactionRequest) -> tuple[list[Placed], dict[str, str]]:
    """Return the cuts to consolidate at, and for each other source the reason against it."""
    from holdfast.point_in_time.consolidated_backup import Consolidation  # slow to import: it reads rows

    cuts, refused = [], {}
    names = (request.source,) if request.source else source_names(state)
    for cut in filter(None, (newest_cut(state, name) for name in names)):
        try:
            Consolidation(state, archive.store, cut)
        except RefusedError as error:
            if request.source:
                raise
            refused[cut.source] = str(error)
        else:
            cuts.append(cut)
    return cuts, refused


def _described(group: Group) -> dict[str, Any]:
    first, last = group.blocks[0].head, group.blocks[-1].head
    return {
        "source": group.source,
        "blocks": len(group.blocks),
        "bytes_before": group.size,
        "changes": group.rows,
        "from": iso(first.covers.from_time),
        "to": iso(last.covers.to_time),
    }


def planned_truncation(
    archive: Archive, request: TruncationRequest, *, coordination: AnyAddress = None
) -> TruncationPlan:
    """Return the restore points that a truncation would remove, and why the others stay; requests: one.

    :raises UsageError: a rule is invalid, or there is no such source.
    :raises RefusedError: the rules would keep nothing, or nothing can be removed safely.
    """
    state = state_to_plan(archive, coordination)
    now = archive.store.list(IDENTITY_KEY).now
    return plan_truncation(state, rules_of(request), now, source=truncated(request), min_chains=request.min_chains)


def rules_of(request: TruncationRequest) -> Rules:
    return NOTHING if request.remove_source else parse_rules(request.keep)


def truncated(request: TruncationRequest) -> str | None:
    """Return the source to truncate; None for all."""
    return request.remove_source or request.source
