"""A budget of time for tests that take longer than anyone waits: several runs in turn have all of them."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

NONE = "none"
STATE = Path(".work", "tests-run.json")
NOT_RUN = Path(".work", "tests-not-run.txt")


def budget_seconds(text: str) -> float | None:
    """Read ``2h``, ``1h30m``, ``90m`` or ``45s``; ``none`` is no end.

    :raises ValueError: where it is none of these
    """
    if text == NONE:
        return None
    found = re.fullmatch(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?", text)
    if not text or found is None:
        raise ValueError(f"a budget is a time such as 2h, 1h30m or 90m, not {text!r}")
    hours, minutes, seconds = (int(each or 0) for each in found.groups())
    return float(hours * 3600 + minutes * 60 + seconds)


def read_runs(root: Path) -> dict[str, int]:
    """When the run began in which each test passed last, in seconds since 1970."""
    try:
        return {str(test): int(began) for test, began in json.loads((root / STATE).read_text()).items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def write_runs(root: Path, before: Mapping[str, int], passed: Iterable[str], began: int) -> None:
    """Keep that these tests passed in a run. Those that failed stay as they were, and come first in the next."""
    runs = {**before, **dict.fromkeys(passed, began)}
    kept = {test: runs[test] for test in sorted(runs) if (root / test.split("::", 1)[0]).exists()}
    (root / STATE).parent.mkdir(exist_ok=True)
    (root / STATE).write_text(json.dumps(kept, indent=0))


class Closing:
    """Begins no test in a process once the budget is over.

    :param deadline: in seconds since 1970
    """

    def __init__(self, deadline: float) -> None:
        self._deadline = deadline

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self) -> bool | None:
        """Take over a test that comes too late, and leave it without a result."""
        return True if time.time() >= self._deadline else None
