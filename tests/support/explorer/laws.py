"""What must hold in every world."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import combinations
from typing import Any, NamedTuple
from unittest.mock import patch

from holdfast.archive.format.commits import COMMITS
from holdfast.archive.format.model import ArchiveCommit
from holdfast.archive.format.state import Change, State, validate
from holdfast.common.errors import DamagedError, RefusedError
from locking import folder
from locking.names import WORDS, Mode, excludes
from locking.terms import MARKER_LIFE
from tests.support.explorer.clients import TERMS, Client, Held, Memory, attached_holds, handle, still_holds
from tests.support.explorer.world import Broken, ClientState, Machine, Objects, World, alone, answer_at_once

CLEANER = Client(("write", "release"), id=99)


class _Holder(NamedTuple):
    """Somebody who works under a lock.

    :param trusted: there is no reason yet to think that it is over
    :param stands: ``check()``, started now, would succeed
    :param stands_alone: it would if it did not look for another holder
    """

    name: str
    txn: str
    mode: Mode
    trusted: bool
    stands: bool
    stands_alone: bool


Stands = tuple[bool, bool]
"""Whether ``check()`` would succeed; whether it would without its look for another holder."""


class Laws:
    """Judges worlds; remembers judgements of what many worlds share.

    :param second_line: the shipped look for another holder in ``check()``, where no client reaches it itself: then
        holders must exclude each other also without it, and keep what they trust also with it. That is what two
        explorations would ask, one with it and one without. None judges by the code as it is.
    """

    def __init__(self, machine: Machine, second_line: Callable[..., None] | None = None) -> None:
        self._machine = machine
        self._scenario = machine.scenario
        self._second_line = second_line
        self._stands: dict[tuple[Held | None, Objects, int], Stands] = {}
        self._clean: dict[tuple[Objects, int], str] = {}
        self._valid: set[Objects] = set()

    def must_hold(self, world: World, *, ended: bool) -> None:
        """Raise :class:`Broken` where a law does not hold.

        :param ended: nothing more can happen in this world
        """
        self._locks(world)
        self._commits(world)
        if ended:
            self._leftovers(world)
            self._progress(world)

    def _locks(self, world: World) -> None:
        holders = self._holders(world)
        for one, other in combinations((each for each in holders if each.stands_alone), 2):
            if one.txn != other.txn and excludes(one.mode, other.mode):
                raise Broken(f"{one.name} and {other.name} both hold the lock ({one.mode}, {other.mode})")
        for each in holders:
            if self._scenario.kept and each.trusted and not each.stands:
                raise Broken(f"{each.name} lost a lock that nobody had a reason to end")

    def _holders(self, world: World) -> list[_Holder]:
        """Who works under a lock, or believes so."""
        holders = []
        for number, client in enumerate(world.clients):
            if (held := self._held(number, client)) is not None:
                trusted = world.time - held.trusted_since < TERMS.lease
                stands = self._still(world, self._scenario.clients[number], held)
                holders.append(_Holder(f"client {number + 1}", held.txn, held.mode, trusted, *stands))
        if (mode := self._scenario.attached) is not None:
            taken = any(key.endswith(f"/{WORDS[mode]}.{handle(mode).txn}") for key in world.written)
            stands = self._still_attached(world, mode)
            holders.append(_Holder("a process under client 1's lock", handle(mode).txn, mode, taken, *stands))
        return holders

    def _held(self, number: int, client: ClientState) -> Held | None:
        """The lock a client works under; until the first request of its release it may still do so."""
        if not client.alive or (self._machine.call(number, client) == "release" and self._machine.answered(client)):
            return None
        return self._machine.memory(client).held

    def _still(self, world: World, client: Client, held: Held) -> Stands:
        key = (held, world.objects, world.time)
        if key not in self._stands:
            ask = partial(answer_at_once, world)
            checks = partial(still_holds, client, held, ask, ordered=self._scenario.ordered)
            self._stands[key] = (False, False) if held.over is not None else self._by_both(checks)
        return self._stands[key]

    def _still_attached(self, world: World, mode: Mode) -> Stands:
        key = (None, world.objects, world.time)
        if key not in self._stands:
            ask = partial(answer_at_once, world)
            self._stands[key] = self._by_both(partial(attached_holds, mode, ask, ordered=self._scenario.ordered))
        return self._stands[key]

    def _by_both(self, checks: Callable[[], bool]) -> Stands:
        if self._second_line is None:
            stands = checks()
            return stands, stands
        with patch.object(folder, "check_alone", self._second_line):
            stands = checks()
        with patch.object(folder, "check_alone", _no_second_line):
            return stands, checks()

    def _commits(self, world: World) -> None:
        """Each commit must be valid in the state it extends."""
        log = tuple(each for each in world.objects if each[0].startswith(COMMITS))
        if log in self._valid:
            return
        state = State()
        try:
            for key, body, _ in log:
                commit = ArchiveCommit.from_bytes(body, key)
                validate(state, Change(commit.kind, add=commit.add, remove=commit.remove))
                state = state.after([commit])
        except (DamagedError, RefusedError) as error:
            raise Broken(f"the archive has a commit that is not valid: {error}") from error
        self._valid.add(log)

    def _progress(self, world: World) -> None:
        if self._scenario.progress and not any(self._machine.memory(client).held for client in world.clients):
            raise Broken("nobody got in")

    def _leftovers(self, world: World) -> None:
        """Whoever comes after lease and grace gets in, and in the end nothing is left."""
        locks = tuple(each for each in world.objects if each[0].startswith("locks/"))
        newest = max((modified for _, _, modified in locks), default=world.time)
        key = (locks, world.time)
        if key not in self._clean:
            self._clean[key] = _clean(world._replace(objects=locks), newest)
        if self._clean[key]:
            raise Broken(self._clean[key])


def _no_second_line(*look: Any) -> None:
    del look


def _clean(world: World, newest: int) -> str:
    """Let time pass and somebody come, three times; what is wrong then, or "". Assumes that nobody holds a lock."""
    world = world._replace(time=newest + int(TERMS.expiry) + 1, clients=())
    memory = Memory()
    for _ in range(3):
        memory, world = alone(world, CLEANER, ("write",), memory)
        if memory.held is None:
            return f"nobody gets in after lease and grace: {_names(world)} is there"
        memory, world = alone(world, CLEANER, ("release",), memory)
        world = world._replace(time=world.time + int(MARKER_LIFE) + 1)
    return f"{_names(world)} stays for ever" if world.objects else ""


def _names(world: World) -> str:
    return ", ".join(key for key, _, _ in world.objects)
