"""Check of a restore's target before its job starts, so that nobody waits for Spark to be refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.logical.ddl_triggers import without_event_triggers
from holdfast.postgresql.restore.plan.ledger import read_ledger
from holdfast.postgresql.restore.rows.load import check_empty

if TYPE_CHECKING:
    from holdfast.operations.requests.restore import RestoreRequest
    from holdfast.postgresql.connection.address import Address


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
