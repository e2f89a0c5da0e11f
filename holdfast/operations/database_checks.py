"""Checks of a job's database before its locks and its job: that its pg_dump is safe, or that it is free."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.common.errors import RefusedError
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.dump.programs import below_floor, find, lacks_tls
from holdfast.postgresql.logical.ddl_triggers import without_event_triggers
from holdfast.postgresql.restore.plan.progress import read_ledger
from holdfast.postgresql.restore.rows.load import check_empty
from holdfast.postgresql.setup.readiness import NEWEST

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.operations.requests.backup import BackupRequest
    from holdfast.operations.requests.restore import RestoreRequest
    from holdfast.postgresql.connection.address import Address


def check_dumper(address: Address, request: BackupRequest, say: Callable[[str], None]) -> None:
    """Refuse a backup whose pg_dump is below its floor, unless it is told to go on, or lacks TLS that is asked for.

    :param address: of the source.
    :param say: is told of an unsafe one that is used all the same.
    :raises RefusedError: it is unsafe, or was built without TLS; says which one to install.
    """
    tls = address.tls
    if find("pg_dump", at_least=NEWEST, tls=tls) and not below_floor("pg_dump", at_least=NEWEST, tls=tls)[0]:
        return  # it suits every server
    with connect(address) as session:
        major = session.info.server_version // 10000
    if lacking := lacks_tls("pg_dump", at_least=major, tls=tls):
        raise RefusedError(": ".join(lacking))
    why, do = below_floor("pg_dump", at_least=major, tls=tls)
    if not why:
        return
    if not request.allow_unsafe_dumper:
        raise RefusedError(
            f"{why}: {do}; or back up by it all the same with --allow-unsafe-dumper (allow_unsafe_dumper in "
            "archives.yaml), where you trust whoever may create objects in the source"
        )
    say(f"backing up by an unsafe pg_dump, as told: {why}")


def check_target_is_free(address: Address, request: RestoreRequest) -> None:
    """Refuse a target that is not empty, where a restore needs an empty one.

    The job looks again, under its own lock. One that goes on with an unfinished restore is for the job to judge.

    :raises RefusedError: something is there; names it.
    """
    if request.is_beside:
        return
    address = without_event_triggers(address)
    with connect(address) as session:
        if read_ledger(session) is None:
            check_empty(session, address)
