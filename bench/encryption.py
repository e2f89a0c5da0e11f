"""`python -m bench.encryption`: what encryption costs a backup and a restore; report in bench/results/."""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from bench.support import machine, workload
from bench.support.command import measure_and_report, new_parser, say
from bench.support.figures import Comparison, collect
from bench.support.holdfast_command import HoldfastCommand
from bench.support.processes import ProgramError
from bench.support.timed import Timed, as_json, as_markdown
from holdfast.storage.encryption.key_source import new_key

if TYPE_CHECKING:
    from holdfast.postgresql.connection.server import PostgresServer

LEAST = 0.85
BACKUP, RESTORE = "backup{}", "restore{}"
ENCRYPTED = ", encrypted"
COMPARISONS = tuple(
    Comparison(f"{what.format(ENCRYPTED)}, against one that is not", what.format(ENCRYPTED), what.format(""), LEAST)
    for what in (BACKUP, RESTORE)
)
TARGET = "restored"

NOTES = (
    "The table of the bench of backups, backed up into a new archive in a folder and restored from there, with a key "
    "and without, one after the other; which of both comes first changes with each round.",
    "Each time is that of the job in a Spark that had started, to its commit or last comparison.",
)

Times = dict[str, float]


@dataclass(frozen=True)
class Found(Timed):
    """:param rows: of the table."""

    comparisons = COMPARISONS
    notes = NOTES

    rows: int

    @property
    def title(self) -> str:
        """Return what was backed up."""
        return f"Backups and restores of {self.rows:,} rows, encrypted and not"


def measure(rows: int, rounds: int) -> Found:
    """Measure everything and clean up, whatever happens.

    :raises ProgramError: a way failed or did not keep every row.
    """
    date = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    times: list[Times] = []
    loads: list[float] = []
    with workload.server() as server:
        workload.create_source(server, rows)
        for number in range(rounds):
            say(f"round {number + 1} of {rounds}")
            loads.append(machine.load())
            found: Times = {}
            for encrypted in (number % 2 == 0, number % 2 == 1):
                found |= _one(server, rows, encrypted=encrypted)
            say("  " + ", ".join(f"{name} {seconds:.2f} s" for name, seconds in found.items()))
            times.append(found)
    return Found(date, machine.host(), loads, collect(times), rows)


def _one(server: PostgresServer, rows: int, *, encrypted: bool) -> Times:
    """Back up and restore once."""
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as name:
        folder = Path(name)
        (folder / "key").write_text(new_key())
        command = HoldfastCommand(server, f"file:{folder / 'key'}" if encrypted else None)
        command.init(folder / "archive")
        backup = command.backup(folder / "archive", workload.SOURCE)
        workload.create_database(server, TARGET)
        restore = command.restore(folder / "archive", TARGET)
        kept = workload.count(server, TARGET)
        workload.drop_database(server, TARGET)
    if not backup.rows == kept == rows:
        raise ProgramError(f"{kept} rows came back of {rows}")
    suffix = ENCRYPTED if encrypted else ""
    return {BACKUP.format(suffix): backup.job, RESTORE.format(suffix): restore.job}


def main() -> int:
    """Run the bench; 0 when all was reached, 1 when something was missed or failed."""
    parser = new_parser("bench.encryption", "Measure what encryption costs.")
    parser.add_argument("--rows", type=int, default=5_000_000, help="of the table")
    given = parser.parse_args()
    return measure_and_report(
        "encryption",
        given.results,
        lambda: measure(given.rows, given.rounds),
        as_json=as_json,
        as_markdown=as_markdown,
    )


if __name__ == "__main__":
    sys.exit(main())
