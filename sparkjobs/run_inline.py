"""An application without Spark: `python -m sparkjobs.run_inline backup --archive …`, as its parent starts it."""

from __future__ import annotations

import importlib
import os
import sys


def main() -> None:
    """Run the application that the first argument names, and end with its exit code."""
    application, *arguments = sys.argv[1:]
    code = importlib.import_module(f"sparkjobs.{application}").main(arguments)
    sys.stdout.flush()
    sys.stderr.flush()
    # At once: a task that was ended may still wait for a database, and nothing is left to tidy up.
    os._exit(code)


if __name__ == "__main__":
    main()
