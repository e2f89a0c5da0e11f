"""Checks of a job's database before its locks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.common.errors import RefusedError
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.dump.programs import find_program, lacks_tls
from holdfast.postgresql.logical.ddl_triggers import without_event_triggers
from holdfast.postgresql.restore.plan.empty_target import check_empty
from holdfast.postgresql.restore.plan.ledger import read_ledger
from holdfast.postgresql.setup.readiness import NEWEST

if TYPE_CHECKING:
    from holdfast.operations.requests.restore import RestoreRequest
    from holdfast.postgresql.connection.address import Address


def check_dumper(address: Address) -> None:
    """Refuse a backup whose pg_dump lacks the TLS that the source's address needs.

    :raises RefusedError: it was built without TLS; names one to install.
    """
    tls = address.tls
    if not tls.is_required or find_program("pg_dump", at_least=NEWEST, tls=tls):
        return  # it suits every server
    with connect(address) as session:
        major = session.info.server_version // 10000
    if lacking := lacks_tls("pg_dump", at_least=major, tls=tls):
        raise RefusedError(": ".join(lacking))


def check_target_is_free(address: Address, request: RestoreRequest) -> None:
    """Refuse a target that is not empty, where a restore needs an empty one.

    The job checks again, under its own lock, and judges a target with an unfinished restore.

    :raises RefusedError: names the objects in it.
    """
    if request.is_beside:
        return
    address = without_event_triggers(address)
    with connect(address) as session:
        if read_ledger(session) is None:
            check_empty(session, address)
