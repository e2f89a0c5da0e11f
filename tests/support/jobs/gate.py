"""Gates that hold a backup or a restore in the middle of its work until a test opens them."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from holdfast.postgresql.connection.session import connect
from tests.support.jobs.command import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.postgresql.connection.address import Address

GUARD = """
create function public.guard() returns boolean language plpgsql as $$
begin perform pg_catalog.pg_advisory_xact_lock_shared(42); return true; end $$
"""
"""A table with `check (public.guard())` cannot be loaded while `loading_held_up` is under way."""


@contextmanager
def reading_held_up(address: Address, index: str) -> Iterator[Gate]:
    """Keep every reader of a table with a stored generated column waiting.

    Such a table is read by a query, which opens all of its indexes, so it waits for one that is being rebuilt; the
    locks that a backup takes on the table itself are granted at once. The server must not have
    wal_level=logical, or the snapshot would wait, too.
    """
    with connect(address) as session:
        session.execute("begin")
        session.execute(f"reindex index {index}".encode())
        yield Gate(address, f"relation = '{index}'::regclass")
        session.execute("rollback")


@contextmanager
def loading_held_up(address: Address) -> Iterator[Gate]:
    """Keep whoever loads a guarded table waiting."""
    with connect(address) as session:
        session.execute("select pg_advisory_lock(42)")
        yield Gate(address, "locktype = 'advisory' and objid = 42")


class Gate:
    """A closed gate; it opens where its block ends."""

    def __init__(self, address: Address, awaited: str) -> None:
        self._address = address
        self._awaited = awaited

    def wait_for_somebody(self) -> None:
        """Return as soon as somebody waits at the gate."""
        query = f"select count(*) from pg_catalog.pg_locks where not granted and {self._awaited}".encode()
        with connect(self._address) as session:
            until(lambda: session.execute(query).fetchone() != (0,), "somebody at the gate")
