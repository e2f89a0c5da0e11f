"""The model and the shipped code say the same, for every order of two clients' requests."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from locking import Lease, LockBusy, Runtime, RWLock
from locking import rwlock as rwlock_module
from locking.rules import Ruling, Verdict
from tests.support.locks.interleaving import Schedule, Turns, interleavings, run_schedule
from tests.support.locks.lockstore import MemoryStore, Request
from tests.support.specs.tla import Graph, graph

pytestmark = pytest.mark.service  # needs what only `make setup-tests` builds

READERS = {"WW": "{}", "RW": "{1}", "WR": "{2}", "RR": "{1, 2}"}

Verdicts = tuple[tuple[bool, ...], tuple[bool, ...], tuple[bool, ...]]
"""Who holds the lock, whose intent is there, whose target: by client."""


@pytest.mark.parametrize("modes", READERS)
def test_every_order_of_requests_ends_the_same_in_the_model_and_in_the_code(modes: str) -> None:
    model = graph("Pair", {"Readers": READERS[modes]})
    orders = _run_all(modes)
    assert len(orders) == _count_orders(model, model.start)
    for turns, verdicts in orders:
        assert _walk(model, turns) == verdicts, turns


def test_the_papers_read_lock_fails_in_both_in_the_same_orders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(rwlock_module._RULES, "R", lambda view: Ruling(Verdict.CLEAR))
    model = graph("Pair", {"Readers": "{1}", "Removed": '{"readers look for writers"}'})
    orders = _run_all("RW")
    assert len(orders) == _count_orders(model, model.start)
    assert all(_walk(model, turns) == verdicts for turns, verdicts in orders)
    assert any(all(held) for _, (held, _, _) in orders)


def _run_all(modes: str) -> list[tuple[list[int], Verdicts]]:
    ended: list[Verdicts] = []

    def run(start: Sequence[int]) -> Schedule:
        done, verdicts = _run_code(modes, start)
        ended.append(verdicts)
        return done

    turns = [done.turns for done in interleavings(run)]
    return list(zip(turns, ended, strict=True))


def _run_code(modes: str, start: Sequence[int]) -> tuple[Schedule, Verdicts]:
    turns = Turns(len(modes))
    store = MemoryStore()

    def wait_for_the_turn(request: Request) -> None:
        # Reading the record of whoever is in the way decides nothing while no time passes.
        if request.word != "get":
            turns.step()

    store.before = wait_for_the_turn
    held: dict[int, Lease] = {}

    def client(number: int) -> Callable[[], None]:
        runtime = Runtime(clock=store.time, jitter=lambda: 0.5, new_txn=lambda: _txn(number))

        def act() -> None:
            lock = RWLock(store, "r", runtime=runtime)
            try:
                held[number] = (lock.read if modes[number] == "R" else lock.write)(wait=0, renew=False)
            except LockBusy:
                return

        return act

    done = run_schedule([client(number) for number in range(len(modes))], turns, start)
    names = [key.rpartition("/")[2] for key in store.objects]

    def present(kind: str) -> tuple[bool, ...]:
        return tuple(any(name.startswith(kind) and name.endswith(_txn(n)) for name in names) for n in range(len(modes)))

    targets = tuple(one or other for one, other in zip(present("READ"), present("WRIT"), strict=True))
    return done, (tuple(number in held for number in range(len(modes))), present("INTENT"), targets)


def _txn(number: int) -> str:
    return f"{number + 1:032x}"


def _walk(model: Graph, turns: Sequence[int]) -> Verdicts:
    """What the model says of the same requests."""
    state = model.start
    for client in turns:
        state = _next(model, state, client)
    assert set(model.pc[state]) <= {"held", "out"}
    intents, targets = model.objects[state]
    return tuple(where == "held" for where in model.pc[state]), intents, targets


def _next(model: Graph, state: str, client: int) -> str:
    """The state after the client's next request; the fence alone is a step without one."""
    after = model.moves[state, client]
    return model.moves[after, client] if model.pc[after][client] == "writing" else after


def _count_orders(model: Graph, state: str) -> int:
    """How many orders of requests the model knows from here on."""
    clients = [client for client in range(len(model.pc[state])) if (state, client) in model.moves]
    return sum(_count_orders(model, _next(model, state, client)) for client in clients) or 1
