"""Every interleaving of the store requests of a few clients, one after the other.

Each client runs in a thread of its own that stops before every request until it is its turn, so that exactly
one runs at any time and a run is determined by the order of turns.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

TURN_LIMIT = 30.0
"""Seconds a client may take for one step before the test gives up."""


class Turns:
    """Lets one client at a time take one step."""

    def __init__(self, clients: int) -> None:
        self._changed = threading.Condition()
        self._waiting: set[int] = set()
        self._done: set[int] = set()
        self._turn: int | None = None
        self._clients = clients
        self._me = threading.local()

    def step(self) -> None:
        """Called by a client before each request: wait for its turn. Other threads pass."""
        me = getattr(self._me, "number", None)
        if me is None:
            return
        with self._changed:
            self._waiting.add(me)
            self._changed.notify_all()
            if not self._changed.wait_for(lambda: self._turn == me, TURN_LIMIT):
                raise TimeoutError(f"client {me} never had its turn")
            self._turn = None
            self._waiting.discard(me)

    def run(self, number: int, client: Callable[[], None]) -> None:
        self._me.number = number
        try:
            client()
        finally:
            with self._changed:
                self._done.add(number)
                self._changed.notify_all()

    def ready(self) -> list[int]:
        """Wait until nobody is in the middle of a step; who could take the next one."""
        with self._changed:
            idle = self._changed.wait_for(
                lambda: self._turn is None and len(self._waiting) + len(self._done) == self._clients, TURN_LIMIT
            )
            if not idle:
                raise TimeoutError("a client neither asked nor ended")
            return sorted(self._waiting)

    def grant(self, number: int) -> None:
        with self._changed:
            self._turn = number
            self._changed.notify_all()


@dataclass
class Schedule:
    """The order of turns of one run, and the choices that were open at each."""

    turns: list[int] = field(default_factory=list)
    choices: list[list[int]] = field(default_factory=list)


def run_schedule(clients: Sequence[Callable[[], None]], turns: Turns, start: Sequence[int]) -> Schedule:
    """Run the clients; the first turns are ``start``, then each goes on as long as it can."""
    threads = [
        threading.Thread(target=turns.run, args=(number, client), daemon=True) for number, client in enumerate(clients)
    ]
    for thread in threads:
        thread.start()
    done = Schedule()
    while ready := turns.ready():
        position = len(done.turns)
        last = done.turns[-1] if done.turns else -1
        turn = start[position] if position < len(start) else (last if last in ready else ready[0])
        done.turns.append(turn)
        done.choices.append(ready)
        turns.grant(turn)
    for thread in threads:
        thread.join(TURN_LIMIT)
    return done


def interleavings(run: Callable[[Sequence[int]], Schedule], *, switches: int | None = None) -> Iterator[Schedule]:
    """Every run that differs in its order of turns.

    :param run: make one run from the beginning, its first turns given
    :param switches: at most so many changes from a client that could have gone on; None for all
    """
    pending: list[list[int]] = [[]]
    while pending:
        start = pending.pop()
        done = run(start)
        yield done
        for position in range(len(start), len(done.turns)):
            for other in done.choices[position]:
                branch = [*done.turns[:position], other]
                if other != done.turns[position] and (switches is None or _switches(branch, done) <= switches):
                    pending.append(branch)


def _switches(turns: Sequence[int], done: Schedule) -> int:
    return sum(
        turns[position] != turns[position - 1] and turns[position - 1] in done.choices[position]
        for position in range(1, len(turns))
    )
