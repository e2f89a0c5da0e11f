"""The protocol's model: it holds as it is, and each guard left out has a counter-example that is kept."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from tests.specs.counterexamples import GUARDS, KEPT, Guard, render
from tests.support.tla import SPECS, Outcome, check

pytestmark = pytest.mark.service  # needs what only `make setup-tests` builds

STATES = {
    "Pair": 88,
    "Mutex": 459,
    "ReadersWriters": 1683,
    "UnorderedListing": 6855,
    "CrashAndReap": 2234,
    "LatePut": 12434,
}
"""How many states each model has. Another number means that the model says something else."""


class Runs:
    """All models, two at a time."""

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        # The longest first.
        models = sorted(STATES, key=lambda name: -STATES[name])
        self.models: Mapping[str, Future[Outcome]] = {name: pool.submit(check, name) for name in models}
        self.without: Mapping[str, Future[Outcome]] = {guard.name: pool.submit(guard.check) for guard in GUARDS}


@pytest.fixture(scope="module")
def runs() -> Iterator[Runs]:
    with ThreadPoolExecutor(max_workers=2) as pool:
        yield Runs(pool)


def test_every_config_is_checked() -> None:
    assert {path.stem for path in SPECS.glob("*.cfg")} == set(STATES)


@pytest.mark.parametrize("model", STATES)
def test_the_readme_tells_how_many_states_there_are(model: str) -> None:
    rows = [line for line in (SPECS / "README.md").read_text().splitlines() if line.startswith(f"| `{model}` |")]
    assert [f"| {STATES[model]:,} |" in row for row in rows] == [True]


@pytest.mark.parametrize("model", STATES)
def test_the_protocol_holds_in_every_state(runs: Runs, model: str) -> None:
    found = runs.models[model].result()
    assert (found.status, found.violated, found.states) == ("ok", None, STATES[model]), found.steps()


@pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: guard.name)
def test_it_fails_without_a_guard_as_is_written_down(runs: Runs, guard: Guard) -> None:
    found = runs.without[guard.name].result()
    assert found.violated == guard.breaks
    assert render(guard, found) in KEPT.read_text()


def test_every_guard_of_the_model_is_left_out_once() -> None:
    spec = (SPECS / "PutAndVerify.tla").read_text()
    assert set(re.findall(r'Guard\("([^"]+)"\)', spec)) == {guard.name for guard in GUARDS}
