"""The process of an application without Spark ends at once, whatever its application did."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HANGING = "import threading, time; threading.Thread(target=time.sleep, args=[600]).start()"
"""A task that still waits for something when its job has ended; the process would wait for it."""


@pytest.mark.parametrize(
    ("ends", "code"),
    [
        ("return 5", 5),
        ("raise RuntimeError('nobody thought of it')", 1),
        ("sys.exit(2)", 2),
        ("sys.exit('bad arguments')", 1),
        ("raise KeyboardInterrupt", 1),
        ("print('x' * 100_000); return 0", 1),
    ],
    ids=["code", "error", "exit", "words", "interrupt", "nobody reads"],
)
def test_the_process_ends_with_a_code_though_a_task_hangs(
    tmp_path: Path, ends: str, code: int, request: pytest.FixtureRequest
) -> None:
    (tmp_path / "application.py").write_text(f"import sys\n{HANGING}\ndef main(arguments):\n    {ends}\n")
    program = (
        "import sys, sparkjobs; sys.modules['sparkjobs.played'] = __import__('application');"
        "from sparkjobs.run_inline import main; main()"
    )
    reader, writer = os.pipe()
    if "nobody reads" in request.node.name:
        os.close(reader)
    done = subprocess.run(
        [sys.executable, "-c", program, "played"],
        env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{Path.cwd()}"},
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
    )
    os.close(writer)
    if "nobody reads" not in request.node.name:
        os.close(reader)
    assert done.returncode == code, done.stderr
    assert ("nobody thought of it" in done.stderr) is ("RuntimeError" in ends)
