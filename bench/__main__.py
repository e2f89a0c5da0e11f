"""`python -m bench`: measure, write the report to bench/results/, and say what was not reached."""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from bench import backup_restore
from bench.memory import MIB
from bench.processes import ProgramError
from bench.results import as_json, as_markdown
from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    from types import FrameType

_RESULTS = Path(__file__).with_name("results")
_INTERRUPTED = 130


def main() -> int:
    """Run the bench; 0 when all targets were reached, 1 when one was missed or something failed."""
    given = _arguments()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    try:
        results = backup_restore.measure(
            given.rows,
            given.rounds,
            tables=given.tables,
            large_rows=given.large_rows,
            large_value=given.large_value * MIB,
        )
    except KeyboardInterrupt:
        print("interrupted: everything that was started is ended", file=sys.stderr)
        return _INTERRUPTED
    except (ProgramError, HoldfastError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    given.results.mkdir(parents=True, exist_ok=True)
    (given.results / "backup_restore.json").write_text(as_json(results))
    report = as_markdown(results, backup_restore.NOTES)
    (given.results / "backup_restore.md").write_text(report)
    print(report)
    for missed in results.missed:
        print(f"not reached: {missed}", file=sys.stderr)
    return 1 if results.missed else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure backup and restore.")
    parser.add_argument("--rows", type=int, default=5_000_000, help="of the large table")
    parser.add_argument("--rounds", type=int, default=3, help="how often each way is measured")
    parser.add_argument("--tables", type=int, default=10_000, help="small ones, in a database of their own")
    parser.add_argument(
        "--large-rows", type=int, default=backup_restore.LARGE_ROWS, help="of the table of large values"
    )
    parser.add_argument("--large-value", type=int, default=backup_restore.LARGE_VALUE // MIB, help="MiB of each")
    parser.add_argument("--results", type=Path, default=_RESULTS, help="folder of the report")
    return parser.parse_args()


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
