"""The schema, by PostgreSQL's own pg_dump and pg_restore."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.sources.postgresql.programs import need, run

if TYPE_CHECKING:
    from holdfast.sources.postgresql.address import Address
    from holdfast.sources.postgresql.snapshot import Snapshot


def dump_schema(address: Address, snapshot: Snapshot, *, server_version: int) -> bytes:
    """Return the whole schema as it is in the snapshot, in pg_dump's custom format.

    :param server_version: such as 180006; pg_dump must be at least of this major version.
    """
    program = need("pg_dump", at_least=server_version // 10000)
    with tempfile.TemporaryDirectory(prefix="holdfast-") as folder:
        target = Path(folder) / "schema.dump"
        run(
            program,
            ["--format=custom", "--schema-only", f"--snapshot={snapshot.name}", f"--file={target}"],
            address,
        )
        return target.read_bytes()


def restore_schema(address: Address, dump: bytes, *, section: str, server_version: int, jobs: int = 1) -> None:
    """Restore one section of a schema dump; any error ends it.

    :param section: "pre-data" in one transaction, or "post-data" with `jobs` sessions.
    """
    program = need("pg_restore", at_least=server_version // 10000)
    mode = ["--single-transaction"] if jobs == 1 else [f"--jobs={jobs}", "--exit-on-error"]
    with tempfile.TemporaryDirectory(prefix="holdfast-") as folder:
        source = Path(folder) / "schema.dump"
        source.write_bytes(dump)
        run(program, [f"--section={section}", *mode, str(source)], address)
