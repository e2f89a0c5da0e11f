"""`python -m bench.backup_restore`: measure, write the report to bench/results/, and say what was not reached."""

from __future__ import annotations

import sys

from bench.backup_restore import measurement
from bench.backup_restore.results import as_json, as_markdown
from bench.support.command import measure_and_report, new_parser
from bench.support.memory import MIB


def main() -> int:
    """Run the bench; 0 when all targets were reached, 1 when one was missed or something failed."""
    parser = new_parser("bench.backup_restore", "Measure backup and restore.")
    parser.add_argument("--rows", type=int, default=5_000_000, help="of the large table")
    parser.add_argument("--tables", type=int, default=10_000, help="small ones, in a database of their own")
    parser.add_argument("--large-rows", type=int, default=measurement.LARGE_ROWS, help="of the table of large values")
    parser.add_argument("--large-value", type=int, default=measurement.LARGE_VALUE // MIB, help="MiB of each")
    given = parser.parse_args()
    return measure_and_report(
        "backup_restore",
        given.results,
        lambda: measurement.measure(
            given.rows,
            given.rounds,
            tables=given.tables,
            large_rows=given.large_rows,
            large_value=given.large_value * MIB,
        ),
        as_json=as_json,
        as_markdown=lambda results: as_markdown(results, measurement.NOTES),
    )


if __name__ == "__main__":
    sys.exit(main())
