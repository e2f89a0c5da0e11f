"""Exploring a scenario: every world that can be reached, shortest schedules first."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from locking import folder
from tests.support.explorer.laws import Laws
from tests.support.explorer.world import Broken, Machine, Scenario, World


@dataclass(frozen=True, slots=True)
class Found:
    """What an exploration found.

    :param worlds: different worlds reached
    :param broken: the law that was broken, or None
    :param schedule: the steps that led there; no shorter schedule does where the search was complete
    """

    scenario: str
    worlds: int
    broken: str | None = None
    schedule: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.broken is None:
            return f"{self.scenario}: {self.worlds} worlds, no law broken"
        steps = "\n".join(f"  {number:2}. {step}" for number, step in enumerate(self.schedule, 1))
        return f"{self.scenario}: {self.broken}, after {len(self.schedule)} steps:\n{steps}"


class TooManyWorlds(Exception):  # noqa: N818 - named after what happened
    """The scenario is larger than its limit; nothing may be concluded."""


class SecondLineReached(Exception):  # noqa: N818 - named after what happened
    """A client itself looks for another holder, so worlds differ where it does not: explore with and without it."""


def explore(scenario: Scenario, *, limit: int = 2_000_000) -> Found:
    """Reach every world, breadth first, until a law is broken.

    :raises TooManyWorlds: there are more than ``limit``
    """
    machine = Machine(scenario)
    return _explore(machine, Laws(machine), limit)


def explore_by_both_lines(scenario: Scenario) -> Found:
    """Explore with the look for another holder in ``check()`` and without it, at once.

    Clients that never call ``check()`` reach the same worlds either way; only the laws call it.

    :raises SecondLineReached: one does
    """
    machine = Machine(scenario)
    reached: list[Any] = []
    laws = Laws(machine, second_line=folder.check_alone)
    with patch.object(folder, "check_alone", lambda *look: reached.append(look)):
        found = _explore(machine, laws, limit=2_000_000)
    if reached:
        raise SecondLineReached(scenario.name)
    return found


def _explore(machine: Machine, laws: Laws, limit: int) -> Found:
    scenario = machine.scenario
    start = machine.start()
    came: dict[World, tuple[World, str] | None] = {start: None}
    queue = deque([start])
    while queue:
        world = queue.popleft()
        try:
            steps = machine.steps(world)
            laws.must_hold(world, ended=not steps)
        except Broken as broken:
            return Found(scenario.name, len(came), str(broken), _schedule(came, world))
        for label, after in steps:
            if after not in came:
                came[after] = (world, label)
                queue.append(after)
        if len(came) > limit:
            raise TooManyWorlds(f"{scenario.name} has more than {limit} worlds")
    return Found(scenario.name, len(came))


def walk(scenario: Scenario, seed: int) -> Found:
    """Take one way at random; ``seed`` replays it."""
    chance = random.Random(seed)
    machine = Machine(scenario)
    laws = Laws(machine)
    world = machine.start()
    schedule: list[str] = []
    while True:
        try:
            steps = machine.steps(world)
            laws.must_hold(world, ended=not steps)
        except Broken as broken:
            return Found(f"{scenario.name}, seed {seed}", len(schedule), str(broken), tuple(schedule))
        if not steps:
            return Found(f"{scenario.name}, seed {seed}", len(schedule))
        label, world = chance.choice(steps)
        schedule.append(label)


def replay(scenario: Scenario, schedule: Sequence[str]) -> Found:
    """Take exactly these steps."""
    machine = Machine(scenario)
    laws = Laws(machine)
    world = machine.start()
    for position, label in enumerate([*schedule, ""]):
        try:
            steps = dict(machine.steps(world))
            laws.must_hold(world, ended=not steps)
        except Broken as broken:
            return Found(scenario.name, position, str(broken), tuple(schedule[:position]))
        if label:
            world = steps[label]
    return Found(scenario.name, len(schedule))


def _schedule(came: dict[World, tuple[World, str] | None], world: World) -> tuple[str, ...]:
    labels: list[str] = []
    while (before := came[world]) is not None:
        world, label = before
        labels.append(label)
    return tuple(reversed(labels))
