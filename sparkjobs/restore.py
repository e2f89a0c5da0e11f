"""Application that restores a PostgreSQL database, or chosen tables of it.

Nothing counts as restored before row counts and content hashes of every table, computed by the target, equal the
archive's.
"""

from __future__ import annotations

import time
from contextlib import nullcontext
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from holdfast.archive.format.document import iso
from holdfast.archive.history.restore_points import age_of_newest, only_source
from holdfast.common.lsn import show_position
from holdfast.operations.requests.restore import RestoreRequest
from holdfast.point_in_time.schema_choice import resolve
from holdfast.point_in_time.unlocked import read_unlocked
from holdfast.postgresql.connection.sql import ident, qualified
from holdfast.postgresql.dump.programs import unsafe_readers
from holdfast.postgresql.logical.ddl_triggers import without_event_triggers
from holdfast.postgresql.restore.plan import ledger
from holdfast.postgresql.restore.plan.name_maps import NameMaps
from holdfast.postgresql.restore.rows import load
from holdfast.replication.work.consistent_read import open_to_read
from sparkjobs.driver.application import Job, database_address, end, run_request
from sparkjobs.driver.restoring import Restoring

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.archive.history.recovery_target import RecoveryTarget


def restore(job: Job, request: RestoreRequest) -> dict[str, Any]:
    """Restore, or plan it in a dry run, and return a summary."""
    started = time.monotonic()
    opened = open_to_read(job.store, request.consistency or "eventual", address=job.coordination)
    name = only_source(opened.state, request.source, request.at)
    moment = resolve(opened.state, job.store, name, request.at, request.schema_choice)
    if age := age_of_newest(opened.state, moment, datetime.now(UTC)):
        job.say(age)
    reading = read_unlocked(job.store, moment, job.log.progress) if request.no_lock else nullcontext()
    with reading:
        summary = {**_restore(job, request, opened.archive, moment), "read_from": opened.describe()}
    if request.dry_run:
        return summary
    equal = not (moment.lost or moment.log_only or moment.unproved_names) and all(
        each["as_of"] for each in summary["stale"]
    )
    return {**summary, "seconds": round(time.monotonic() - started, 3), "equal": equal}


def _restore(job: Job, request: RestoreRequest, archive: str, moment: RecoveryTarget) -> dict[str, Any]:
    address = without_event_triggers(database_address("target"))
    with load.hold_target(address) as session:
        job.say(*unsafe_readers(session.info.server_version))
        if warning := address.tls.warning():
            job.say(warning)
        claim = _claim(request, archive, moment, job.run)
        restoring = Restoring(job, address, session, claim, moment, request)
        summary = {**_summary(moment), "resumed": restoring.resumed()}
        if request.dry_run:
            plan = restoring.plan
            described = {
                **plan.describe(),
                "database": restoring.database.describe(),
                "roles": restoring.roles.describe(),
                "loaded_by": restoring.loaded_by(),
            }
            return {**summary, "dry_run": True, "plan": described, "stale": restoring.stale(), **plan.size()}
        return summary | restoring.run()


def _claim(request: RestoreRequest, archive: str, moment: RecoveryTarget, run: str) -> ledger.TargetClaim:
    names = NameMaps.parse(request.map)
    maps = [f"{ident(old)}={ident(new)}" for old, new in names.schemas.items()]
    maps += [f"{qualified(*old)}={qualified(*new)}" for old, new in names.tables.items()]
    tables, maps = sorted(set(request.tables)), sorted(maps)
    position = "" if moment.is_snapshot else show_position(moment.position)
    full = moment.full.block.id
    return ledger.TargetClaim(
        archive, full, tuple(tables), tuple(maps), moment.commit, run, position, is_data_only=request.data_only
    )


def _summary(moment: RecoveryTarget) -> dict[str, Any]:
    block = moment.schema.block
    bases = [parts.base for parts in moment.tables().values()]
    return {
        "commit": moment.commit,
        "source": moment.source,
        "block": moment.full.block.id,
        "tables": len(bases) + len(moment.log_only),
        "rows": sum(base.rows for base in bases),
        "bytes": _stored(moment),
        "restored_to": iso(moment.at),
        "position": show_position(moment.position),
        "schema_note": moment.approximate,
        "lost": list(moment.lost),
        "log_only": list(moment.log_only),
        "unproved_names": list(moment.unproved_names),
        "not_included": list(block.not_included),
        "not_restored": [],
        "skipped_existing": [],
    }


def _stored(moment: RecoveryTarget) -> int:
    """Return the stored bytes of a recovery target's blocks; those of a joined one count once."""
    own = {
        file.path: file.size
        for placed in moment.blocks()
        for file in placed.block.files()
        if not {placed.id, placed.home}.isdisjoint(file.path.split("/"))
    }
    return sum(own.values())


def main(arguments: Sequence[str] | None = None) -> int:
    return run_request(RestoreRequest, restore, arguments)


if __name__ == "__main__":
    end(main())
