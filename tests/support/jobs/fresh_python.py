"""Programs in an interpreter of their own, with nothing imported yet."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def run(program: str, *path: Path) -> list[str]:
    """Run a program, and return the words that it prints.

    :param path: where it looks for modules first.
    """
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": ":".join(map(str, path))},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()
