"""Schema dumps by PostgreSQL's own pg_dump and pg_restore."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.common.errors import HoldfastError, RefusedError
from holdfast.postgresql.catalog.own_objects import LEDGER, PUBLISH_SCHEMA
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.dump.lent_session import lent
from holdfast.postgresql.dump.programs import begin, need_program, output_of
from holdfast.postgresql.snapshot.readers_first import become_reader
from holdfast.postgresql.snapshot.snapshot import queue_wait, queued_behind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.postgresql.connection.address import Address
    from holdfast.postgresql.snapshot.export import Snapshot

_QUEUED = "LOCK TABLE"
"""What pg_dump quotes where it failed for want of a lock; the server's own words depend on its language."""

_READERS = {15: 16, 16: 17}
"""The pg_restore that came with a version 1.x of the format. Source: K_VERS_* in PostgreSQL's pg_backup_archiver.h."""


def dump_schema(address: Address, snapshot: Snapshot, *, server_version: int) -> tuple[bytes, tuple[str, ...]]:
    """Return the dumped schema and pg_dump's warnings."""
    with begin_dump(address, snapshot, server_version=server_version) as dumped:
        return dumped()


@contextmanager
def begin_dump(
    address: Address, snapshot: Snapshot, *, server_version: int
) -> Iterator[Callable[[], tuple[bytes, tuple[str, ...]]]]:
    """Dump the schema while the block does something else.

    What this yields waits for the end, and returns the whole schema as it is in the snapshot, in pg_dump's custom
    format, and what it warned of. What a restore has left in the database is not in it.

    :param server_version: such as 180006; pg_dump must be at least of this major version.
    :raises BusyError: a change of a table is waiting, and does not give way in QUEUE_WAIT_S.
    :raises RefusedError: the address asks for TLS, and no pg_dump on this machine was built with it.
    """
    program = need_program("pg_dump", at_least=server_version // 10000, tls=address.tls)
    with tempfile.TemporaryDirectory(prefix="holdfast-", ignore_cleanup_errors=True) as folder:
        target = Path(folder) / "schema.dump"
        options = [
            "--format=custom",
            "--schema-only",
            "--encoding=UTF8",
            f"--exclude-schema={LEDGER}",
            f"--exclude-schema={PUBLISH_SCHEMA}",
            f"--snapshot={snapshot.name}",
            f"--file={target}",
            f"--lock-wait-timeout={int(queue_wait(snapshot) * 1000)}",
        ]
        with ExitStack() as opened:
            used = address
            if snapshot.ddl_waits:
                session = opened.enter_context(connect(address))
                become_reader(session, until="")
                used = opened.enter_context(lent(session))
            end = opened.enter_context(begin(program, options, used))

            def dumped() -> tuple[bytes, tuple[str, ...]]:
                try:
                    warnings = end()
                except HoldfastError as error:
                    if _QUEUED in str(error):
                        raise queued_behind(address, queue_wait(snapshot)) from error
                    raise
                return target.read_bytes(), warnings

            yield dumped


def script_of(dump: bytes, section: str, *, server_version: int) -> str:
    """Return the SQL of one section, each entry behind a comment of its identity and needs.

    :param section: "pre-data" or "post-data".
    :raises RefusedError: it was written under settings under which it would be read as something else.
    """
    program = need_program("pg_restore", at_least=max(server_version // 10000, _reader_of(dump)))
    with tempfile.TemporaryDirectory(prefix="holdfast-", ignore_cleanup_errors=True) as folder:
        path = Path(folder) / "schema.dump"
        path.write_bytes(dump)
        script = output_of(program, ["--file=-", "--verbose", f"--section={section}", str(path)])
    for setting, value in (("client_encoding", "'UTF8'"), ("standard_conforming_strings", "on")):
        if f"\nSET {setting} = {value};\n" not in script:
            raise RefusedError(f"the schema was not dumped under {setting} = {value}, as backups are: back up again")
    return script


def _reader_of(dump: bytes) -> int:
    """Return the version of the oldest pg_restore that can read a dump, or 0.

    It follows from the format's version, which stands behind the dump's first letters.
    """
    minor = dump[6] if dump.startswith(b"PGDMP\x01") and len(dump) > 6 else 0
    return _READERS.get(minor, 0)
