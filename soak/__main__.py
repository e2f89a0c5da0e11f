"""Runs everything at once for a while: `python -m soak --hours 0.1 --seed 7`, or `make soak HOURS=0.1 SEED=7`."""

from __future__ import annotations

import argparse
import ctypes
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from bench.support.missing import MissingError
from demo.supervisor import descendants, end_all
from holdfast.common.errors import HoldfastError
from soak import report
from soak.conductor import Conductor
from soak.journal import Journal
from soak.servers import running

if TYPE_CHECKING:
    from types import FrameType

_RESULTS = Path(__file__).parents[1] / ".work" / "soak"
_PR_SET_CHILD_SUBREAPER = 36
_INTERRUPTED = 130


def main() -> int:
    """Run, and report: 0 where all held, 1 where something did not, 2 where it cannot be run here."""
    given = _parser().parse_args()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)  # whoever loses its parent is found at the end
    folder = Path(tempfile.mkdtemp(prefix="holdfast-soak-"))
    folder.chmod(0o711)  # the server of a drill is another user's; settings.json is its owner's alone
    _say(f"seed {given.seed}, {given.hours * 60:.0f} minutes, in {folder}")
    keep = True
    try:
        found = _run(folder, given.seed, given.hours * 3600)
        report.write(found, given.results)
        if given.page:
            report.write_page(found, given.page)
        keep = bool(found["failures"])
    except KeyboardInterrupt:
        _say("interrupted: everything that was started is ended")
        return _INTERRUPTED
    except (MissingError, HoldfastError) as error:
        _say(f"soak: {error}")
        return 2
    finally:
        end_all(lambda: descendants(os.getpid()), signal.SIGKILL, 20.0)
        if not (keep or given.keep):
            shutil.rmtree(folder, ignore_errors=True)
    sys.stdout.write(report.markdown(found))
    if found["failures"]:
        _say(f"something did not hold; what was recorded is in {folder}: again with SEED={given.seed}")
    return 1 if found["failures"] else 0


def _run(folder: Path, seed: int, seconds: float) -> dict[str, object]:
    journal = Journal(folder / "journal", "conductor")
    with running(folder, journal, seed) as servers:
        conductor = Conductor(servers, journal, seed=seed, seconds=seconds, say=_say)
        try:
            return report.figures(conductor.run())
        finally:
            conductor.stop()
            kept = servers.pids | servers.s3.pids
            end_all(lambda: descendants(os.getpid()) - _with_below(kept), signal.SIGKILL, 20.0)


def _with_below(pids: set[int]) -> set[int]:
    return pids.union(*(descendants(pid) for pid in pids))


def _parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m soak", description="Everything at once, with faults.")
    made.add_argument("--hours", type=float, default=0.1, help="how long there are faults; the end takes minutes more")
    made.add_argument("--seed", type=int, default=random.randrange(1_000_000), help="draws operations and faults")
    made.add_argument("--results", type=Path, default=_RESULTS, help="folder of the report")
    made.add_argument("--page", type=Path, help="a page between whose marks the counts go, such as docs/reliability.md")
    made.add_argument("--keep", action="store_true", help="keep what was recorded, also where all held")
    return made


def _say(words: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {words}", file=sys.stderr, flush=True)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
