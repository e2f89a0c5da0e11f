"""The protocols' models: each holds as it is, and each guard left out has a counter-example that is kept."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from tests.specs.counterexamples import GUARDS, KEPT, Guard, render
from tests.support.specs.tla import SPECS, Outcome, check

pytestmark = pytest.mark.service  # needs what only `make setup-tests` builds

MODELS = {
    "PutAndVerify": {
        "Pair": 88,
        "Mutex": 459,
        "ReadersWriters": 1683,
        "UnorderedListing": 6855,
        "CrashAndReap": 2234,
        "LatePut": 12434,
    },
    "LogTrimming": {"LogTrimming": 7580, "OneStaysAway": 9467, "LostSource": 1802, "AtOnce": 7740},
    "Replication": {"Replication": 5712, "TwoLeaders": 15919, "DroppedInputs": 10343},
    "Quorum": {
        "Quorum": 6723,
        "Retry": 8250,
        "LostVoters": 3537,
        "Inactive": 625,
        "LossAndFailure": 14169,
        "SequentialReads": 7861,
        "OverlappingReads": 8100,
    },
    "OldStore": {
        "OldStore": 1151,
        "OldPlain": 8847,
        "TwoCopies": 1818,
        "PassedFailure": 8748,
        "NewMember": 892,
        "AddedMember": 977,
        "Away": 3384,
        "SomeUnread": 971,
        "Suspended": 1277,
    },
    "VoidNumbers": {"VoidNumbers": 13605, "TwoVoiders": 5407},
    "LastSeen": {"LastSeen": 1068, "SeenByTwo": 926, "SeenReplica": 3141, "SeenFork": 2391},
}
"""How many states each model of each module has. Another number means that the model says something else."""

STATES = {model: states for models in MODELS.values() for model, states in models.items()}
SPECS_OF = {model: spec for spec, models in MODELS.items() for model in models}

FAILING = {"StaleRead", "TwoLogs"}
"""Kept because they fail: to show why, or what is not promised."""

SMALL = {min(states, key=states.__getitem__) for states in MODELS.values()}
"""The models that `make test` checks, one of each module; `make specs` checks all."""

QUICK = {
    "the second look",
    "the fence",
    "DEAD by who gives up",
    "nobody is waited for beyond MaxKeep",
    "the source is not lost",
    "each entry is committed once",
    "the result exists before its entry",
    "what has succeeded does not fail",
    "who is lost does not count",
    "success is an entry",
    "an addition is an entry",
    "a late writer takes the next number",
    "what is voided is empty",
    "a number is compared with its commit",
    "who accepts remembers what was accepted",
}
"""Guards whose counter-examples `make test` looks for, some of each module; `make specs` looks for all.

Code that lacks one is caught by the explorers' mutants; that only the leader appends, by test_leader.py.
"""


class Runs:
    """The models that are asked for, two at a time.

    :param asked: names of models and of guards.
    """

    def __init__(self, pool: ThreadPoolExecutor, asked: Collection[str]) -> None:
        # The longest first.
        models = sorted(STATES.keys() & asked, key=lambda name: -STATES[name])
        self.models: Mapping[str, Future[Outcome]] = {
            name: pool.submit(check, name, spec=SPECS_OF[name]) for name in models
        }
        self.without: Mapping[str, Future[Outcome]] = {
            guard.name: pool.submit(guard.check) for guard in GUARDS if guard.name in asked
        }


@pytest.fixture(scope="module")
def runs(request: pytest.FixtureRequest) -> Iterator[Runs]:
    # Other tests have models' names as their parameters, too.
    using = [item for item in request.session.items if "runs" in getattr(item, "fixturenames", ())]
    asked = {item.callspec.id for item in using if hasattr(item, "callspec")}
    with ThreadPoolExecutor(max_workers=2) as pool:
        yield Runs(pool, asked)


def test_each_module_has_a_guard_that_is_looked_for_in_each_run() -> None:
    assert {guard.name for guard in GUARDS} > QUICK
    assert {guard.spec for guard in GUARDS if guard.name in QUICK} == set(MODELS)


def test_every_config_is_checked() -> None:
    assert {path.stem for path in SPECS.glob("*.cfg")} == set(STATES) | FAILING


@pytest.mark.parametrize("model", STATES)
def test_the_readme_tells_how_many_states_there_are(model: str) -> None:
    rows = [line for line in (SPECS / "README.md").read_text().splitlines() if line.startswith(f"| `{model}` |")]
    assert [f"| {STATES[model]:,} |" in row for row in rows] == [True]


@pytest.mark.parametrize(
    "model",
    [pytest.param(each, id=each, marks=[] if each in SMALL else [pytest.mark.exhaustive]) for each in STATES],
)
def test_the_protocol_holds_in_every_state(runs: Runs, model: str) -> None:
    found = runs.models[model].result()
    assert (found.status, found.violated, found.states) == ("ok", None, STATES[model]), found.steps()


@pytest.mark.parametrize(
    "guard",
    [pytest.param(each, id=each.name, marks=[] if each.name in QUICK else [pytest.mark.exhaustive]) for each in GUARDS],
)
def test_it_fails_without_a_guard_as_is_written_down(runs: Runs, guard: Guard) -> None:
    found = runs.without[guard.name].result()
    assert found.violated == guard.breaks
    assert render(guard, found) in KEPT.read_text()


@pytest.mark.parametrize("spec", MODELS)
def test_every_guard_of_the_model_is_left_out_once(spec: str) -> None:
    text = (SPECS / f"{spec}.tla").read_text()
    named = sorted(guard.name for guard in GUARDS if guard.spec == spec)
    assert sorted(set(re.findall(r'Guard\("([^"]+)"\)', text))) == named


def test_a_read_of_a_lagging_copy_fails_as_the_config_kept_for_it_says() -> None:
    found = check("StaleRead", spec="Quorum")
    assert (found.status, found.violated) == ("invariant_violation", "ReadAfterWrite")


def test_backups_that_count_at_once_may_make_two_logs_where_some_cannot_be_read() -> None:
    found = check("TwoLogs", spec="OldStore")
    assert (found.status, found.violated) == ("invariant_violation", "OneLog")
    assert found.steps() == ["Take", "Backup 1", "Execute 1", "Put", "Backup 2", "Execute 2"]
