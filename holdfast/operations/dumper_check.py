"""Check of a backup's pg_dump before its locks and its job: that it has TLS where the source asks for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.common.errors import RefusedError
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.dump.programs import find_program, lacks_tls
from holdfast.postgresql.setup.readiness import NEWEST

if TYPE_CHECKING:
    from holdfast.postgresql.connection.address import Address


def check_dumper(address: Address) -> None:
    """Refuse a backup whose pg_dump lacks TLS that is asked for.

    :param address: of the source.
    :raises RefusedError: it was built without TLS; says which one to install.
    """
    tls = address.tls
    if not tls.is_wanted or find_program("pg_dump", at_least=NEWEST, tls=tls):
        return  # it suits every server
    with connect(address) as session:
        major = session.info.server_version // 10000
    if lacking := lacks_tls("pg_dump", at_least=major, tls=tls):
        raise RefusedError(": ".join(lacking))
