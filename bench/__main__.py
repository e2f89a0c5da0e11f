"""`python -m bench`: measure, write the report to bench/results/, and say what was not reached."""

from __future__ import annotations

import sys

from bench import backup_restore
from bench.command import measure_and_report, new_parser
from bench.memory import MIB
from bench.results import as_json, as_markdown


def main() -> int:
    """Run the bench; 0 when all targets were reached, 1 when one was missed or something failed."""
    parser = new_parser("bench", "Measure backup and restore.")
    parser.add_argument("--rows", type=int, default=5_000_000, help="of the large table")
    parser.add_argument("--tables", type=int, default=10_000, help="small ones, in a database of their own")
    parser.add_argument(
        "--large-rows", type=int, default=backup_restore.LARGE_ROWS, help="of the table of large values"
    )
    parser.add_argument("--large-value", type=int, default=backup_restore.LARGE_VALUE // MIB, help="MiB of each")
    given = parser.parse_args()
    return measure_and_report(
        "backup_restore",
        given.results,
        lambda: backup_restore.measure(
            given.rows,
            given.rounds,
            tables=given.tables,
            large_rows=given.large_rows,
            large_value=given.large_value * MIB,
        ),
        as_json=as_json,
        as_markdown=lambda results: as_markdown(results, backup_restore.NOTES),
    )


if __name__ == "__main__":
    sys.exit(main())
