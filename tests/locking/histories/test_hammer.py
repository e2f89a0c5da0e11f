"""Many processes, killed and suspended at random, on real stores: the locks stay locks.

docs/decisions/locks.md says what this shows. ``make test-all`` hammers for minutes; ``HOLDFAST_SEED=n`` chooses
the kills and pauses of an earlier run again (not what the processes make of them).
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from bench.support.versitygw import running_versitygw
from tests.support.hammer.driver import Plan, clear, hammer
from tests.support.hammer.history import Verdict, check, operations, read_history

pytestmark = pytest.mark.service  # also the folder's: its histories need what only `make setup-tests` builds

SEED = int(os.environ.get("HOLDFAST_SEED", random.randrange(1_000_000)))

LONG_S = 180.0
"""Seconds."""


@pytest.fixture(params=["folder", pytest.param("s3", marks=pytest.mark.exhaustive)])
def plan(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Plan]:
    folder = tmp_path / "history"
    if request.param == "folder":
        url = str(tmp_path / "archive")
        yield Plan(url=url, folder=folder, seed=SEED, seconds=2, lease=1, grace=1, processes=8)
        return
    with running_versitygw() as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        server.make_bucket("locks-test")
        # The server's times are whole seconds.
        yield Plan(url="s3://locks-test/archive", folder=folder, seed=SEED, seconds=5, lease=3, grace=2, processes=8)


def run(plan: Plan, limit: float = 60.0) -> Verdict:
    """Hammer, say what was done, and judge the history."""
    tally = hammer(plan)
    history = read_history(plan.folder)
    seen = Counter(event["what"] for events in history for event in events)
    found = check(operations(history, plan.lease), limit=limit)
    print(f"Seed {plan.seed}, histories in {plan.folder}: {tally}; {dict(seen)}; {found}")  # noqa: T201 - what failed
    return found


def must_be_right(plan: Plan, limit: float = 60.0) -> None:
    found = run(plan, limit)
    assert found.result == "Ok", found.words
    assert found.operations > 0
    resources = {event["resource"] for events in read_history(plan.folder) for event in events if "resource" in event}
    assert clear(plan, sorted(resources)) == []


def test_killed_and_suspended_processes_leave_a_linearizable_history_and_no_locks(plan: Plan) -> None:
    must_be_right(plan)


@pytest.mark.exhaustive
def test_also_for_minutes(plan: Plan) -> None:
    must_be_right(replace(plan, seconds=LONG_S, processes=16), limit=600.0)


@pytest.mark.parametrize(
    ("guard", "seconds"),
    [
        pytest.param("verified again after the intent", 2, marks=pytest.mark.exhaustive),
        pytest.param("nobody ends what may be trusted", 4, marks=pytest.mark.exhaustive),
    ],
)
def test_locks_that_lack_a_guard_are_caught(guard: str, seconds: float, tmp_path: Path) -> None:
    """Nearly always the first time; a busy machine may leave too little to see.

    In `make test` the explorer catches both, and test_history_checker.py shows that the judge of histories does.
    """
    for seed in range(10):
        found = run(
            Plan(
                url=str(tmp_path / f"archive-{seed}"),
                folder=tmp_path / f"history-{seed}",
                seed=seed,
                seconds=seconds,
                lease=1,
                grace=1,
                mutant=guard,
            )
        )
        if found.result == "Illegal":
            return
    pytest.fail(f"Nothing was noticed without: {guard}")
