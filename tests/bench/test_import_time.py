"""The locks alone are imported in no time, and bring nothing along that they do not need."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

LIMIT_S = 0.1
"""Of a processor, at best of some tries: a busy machine takes longer by the clock."""

TRIES = 5

PROGRAM = """
import json, sys, time
before, started = set(sys.modules), time.process_time()
import locking
took = time.process_time() - started
print(json.dumps([took, sorted({name.partition(".")[0] for name in set(sys.modules) - before})]))
"""


def imported() -> tuple[float, set[str]]:
    """Return how long `import locking` takes in a new process, and the packages that it brings."""
    # Without what the environment's packages import at the start of every interpreter.
    command = [sys.executable, "-S", "-c", PROGRAM]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    took, packages = json.loads(done.stdout)
    return took, set(packages)


def test_locks_are_imported_in_no_time_and_with_the_standard_library_alone() -> None:
    found = [imported() for _ in range(TRIES)]
    packages = {package for _, several in found for package in several}
    assert packages - set(sys.stdlib_module_names) == {"locking"}
    assert packages & {"asyncio", "concurrent"} == set()
    assert min(took for took, _ in found) < LIMIT_S
