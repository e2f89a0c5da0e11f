"""The schema, by PostgreSQL's own pg_dump and pg_restore."""

from __future__ import annotations

import re
import tempfile
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Self

from holdfast.errors import HoldfastError, RefusedError
from holdfast.sources.postgresql.programs import need, output_of, run
from holdfast.sources.postgresql.snapshot import QUEUE_WAIT_S, queued_behind

if TYPE_CHECKING:
    from types import TracebackType

    from holdfast.sources.postgresql.address import Address
    from holdfast.sources.postgresql.snapshot import Snapshot

_QUEUED = "LOCK TABLE"
"""What pg_dump quotes where it failed for want of a lock; the server's own words depend on its language."""


def dump_schema(address: Address, snapshot: Snapshot, *, server_version: int) -> tuple[bytes, tuple[str, ...]]:
    """Return the whole schema as it is in the snapshot, in pg_dump's custom format, and what it warned of.

    :param server_version: such as 180006; pg_dump must be at least of this major version.
    :raises BusyError: somebody waits to change a table, and does not give way in QUEUE_WAIT_S.
    """
    program = need("pg_dump", at_least=server_version // 10000)
    with tempfile.TemporaryDirectory(prefix="holdfast-") as folder:
        target = Path(folder) / "schema.dump"
        options = [
            "--format=custom",
            "--schema-only",
            "--encoding=UTF8",
            f"--snapshot={snapshot.name}",
            f"--file={target}",
        ]
        try:
            warnings = run(program, [*options, f"--lock-wait-timeout={int(QUEUE_WAIT_S * 1000)}"], address)
        except HoldfastError as error:
            if _QUEUED in str(error):
                raise queued_behind(address) from error
            raise
        return target.read_bytes(), warnings


def restore_pre_data(address: Address, dump: bytes, *, server_version: int) -> None:
    """Create everything that rows need to be loaded, in one transaction."""
    with _Restorer(address, dump, server_version) as restorer:
        restorer.run("--section=pre-data", "--single-transaction")


def restore_post_data(address: Address, dump: bytes, *, server_version: int, jobs: int) -> None:
    """Create indexes, constraints, triggers and the like; any error ends it.

    pg_restore's parallel sessions deadlock where one attaches a partition's index while another adds a
    foreign key of the same tables; so what attaches runs alone, between the parallel stretches. The
    order of the dump's list is kept, so every entry finds what it depends on.

    :param jobs: sessions at once.
    """
    with _Restorer(address, dump, server_version) as restorer:
        for alone, entries in groupby(restorer.entries("post-data"), key=lambda entry: bool(_ATTACH.match(entry))):
            restorer.run(*(["--single-transaction"] if alone else [f"--jobs={jobs}"]), entries=list(entries))


_ATTACH = re.compile(r"\d+; \d+ \d+ INDEX ATTACH ")


def script_of(dump: bytes, section: str, *, server_version: int) -> str:
    """Return the SQL of one section, with a comment before each entry that says what it is and needs.

    :param section: "pre-data" or "post-data".
    """
    program = need("pg_restore", at_least=server_version // 10000)
    with tempfile.TemporaryDirectory(prefix="holdfast-") as folder:
        path = Path(folder) / "schema.dump"
        path.write_bytes(dump)
        script = output_of(program, ["--file=-", "--verbose", f"--section={section}", str(path)])
    if "\nSET client_encoding = 'UTF8';\n" not in script:
        raise RefusedError("the schema was dumped in another encoding than UTF8: only all of it can be restored")
    return script


class _Restorer:
    """pg_restore on one dump, which is in a temporary folder meanwhile."""

    def __init__(self, address: Address, dump: bytes, server_version: int) -> None:
        self._address = address
        self._program = need("pg_restore", at_least=server_version // 10000)
        self._folder = tempfile.TemporaryDirectory(prefix="holdfast-")
        self._dump = Path(self._folder.name) / "schema.dump"
        self._dump.write_bytes(dump)

    def entries(self, section: str) -> list[str]:
        """Return the lines of the dump's list for one section, in its order."""
        lines = output_of(self._program, ["--list", f"--section={section}", str(self._dump)]).splitlines()
        return [line for line in lines if line and not line.startswith(";")]

    def run(self, *options: str, entries: list[str] | None = None) -> None:
        """Restore what the options say, or just these entries."""
        chosen = []
        if entries is not None:
            listed = Path(self._folder.name) / "list"
            listed.write_bytes(("\n".join(entries) + "\n").encode("utf-8", "surrogateescape"))
            chosen = [f"--use-list={listed}"]
        run(self._program, ["--exit-on-error", *options, *chosen, str(self._dump)], self._address)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._folder.cleanup()
