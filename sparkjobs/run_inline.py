"""An application without Spark: `python -m sparkjobs.run_inline backup --archive …`, as its parent starts it.

With `--ready backup` it imports the application, and waits for its arguments, environment and log on standard input.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import traceback
from contextlib import suppress
from typing import NoReturn

from holdfast.operations.ready_process import READY
from sparkjobs.executors.without_pandas import hide_pandas


def main() -> NoReturn:
    """Run the application that the first argument names, and end with its exit code."""
    hide_pandas()
    # numpy's library would start as many threads as there are cores, for nothing.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    code = 1
    with suppress(BrokenPipeError):  # whoever read the words is gone
        code = _run_ready(sys.argv[2]) if sys.argv[1] == READY else _run(*sys.argv[1:])
        sys.stdout.flush()
        sys.stderr.flush()
    # At once: a task that was ended may still wait for a database, and nothing is left to tidy up.
    os._exit(code)


def _run_ready(application: str) -> int:
    with suppress(Exception):  # it is raised again where the words of this process go to its log
        importlib.import_module(f"sparkjobs.{application}")
    line = sys.stdin.readline()
    if not line:  # the command has ended without a job for this process
        return 0
    job = json.loads(line)
    os.environ.update(job["environment"])
    log = os.open(job["log"], os.O_WRONLY | os.O_APPEND)
    os.dup2(log, sys.stdout.fileno())
    os.dup2(log, sys.stderr.fileno())
    return _run(application, *job["arguments"])


def _run(application: str, *arguments: str) -> int:
    try:
        code: int = importlib.import_module(f"sparkjobs.{application}").main(arguments)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 1
    except BaseException:  # noqa: BLE001 - the process ends as said above
        traceback.print_exc()
        return 1
    return code


if __name__ == "__main__":
    main()
