"""Runs the model checker on specs/, and reads what it says."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).resolve().parents[2]
SPECS = _ROOT / "specs"
LIMIT = 300.0
"""Seconds one model may take on a busy machine."""


@dataclass(frozen=True)
class Outcome:
    """What the checker found.

    :param status: ``ok``, ``invariant_violation`` or ``liveness_violation``
    :param violated: the name of what does not hold
    :param states: how many states there are, or were seen until then
    :param trace: the states of the counter-example, each with its action
    :param loop: the states that follow for ever, where it has no end
    """

    status: str
    violated: str | None
    states: int
    trace: tuple[Mapping[str, Any], ...]
    loop: tuple[Mapping[str, Any], ...]

    def steps(self) -> list[str]:
        """The counter-example in words: ``PutIntent 1``, ``Tick``."""
        return [_step(before, after) for before, after in pairwise(self.trace)]

    def rounds(self) -> list[str]:
        """Where the clients are in each state of the loop: ``looking/ready/held``."""
        return ["/".join(state["state"]["pc"]) for state in self.loop]


@dataclass(frozen=True)
class Graph:
    """All states of a model, and where each client can go from them.

    :param pc: where each client is, by state
    :param objects: who has an intent, and who a target, by state
    :param moves: the next state, by state and client; holding is where they end
    """

    start: str
    pc: Mapping[str, tuple[str, ...]]
    objects: Mapping[str, tuple[tuple[bool, ...], tuple[bool, ...]]]
    moves: Mapping[tuple[str, int], str]


def find_tla() -> Path:
    """The checker: ``HOLDFAST_TLA``, or what ``make setup-tests`` built."""
    named = os.environ.get("HOLDFAST_TLA")
    program = Path(named) if named else _ROOT / ".work" / "bin" / "tla"
    if not os.access(program, os.X_OK):
        raise FileNotFoundError(
            f"There is no model checker at {program}: `make setup-tests` builds it, or set HOLDFAST_TLA to its path."
        )
    return program


def check(config: str, constants: Mapping[str, str] | None = None) -> Outcome:
    """Check ``specs/PutAndVerify.tla`` with ``specs/<config>.cfg``; ``constants`` replace the config's."""
    said = _run(config, constants or {}, "--json")
    answer = json.loads(said[said.index('{"status"') :])
    stats = answer.get("stats", {})
    return Outcome(
        status=answer["status"],
        violated=answer.get("invariant_name") or answer.get("property"),
        states=stats.get("states_explored", 0),
        trace=tuple(answer.get("trace") or answer.get("prefix", ())),
        loop=tuple(answer.get("cycle", ())),
    )


def graph(config: str, constants: Mapping[str, str] | None = None) -> Graph:
    """The state graph of a model in which clients only act one by one."""
    with tempfile.TemporaryDirectory() as folder:
        dot = Path(folder) / "graph.dot"
        _run(config, constants or {}, "--export-dot", str(dot), "--dot-mode", "full", "--continue")
        return _read_graph(dot.read_text())


def _run(config: str, constants: Mapping[str, str], *options: str) -> str:
    command = [str(find_tla()), "PutAndVerify.tla", "--config", f"{config}.cfg", *options]
    for name, value in constants.items():
        command += ["-c", f"{name}={value}"]
    done = subprocess.run(command, cwd=SPECS, capture_output=True, text=True, timeout=LIMIT, check=False)
    if done.returncode not in (0, 1):
        said = f"{done.stdout[-2000:]}{done.stderr[-2000:]}"
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}: {said}")
    return done.stdout


def _step(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    action = str(after["action"])
    if action in ("Tick", "Bury", "Delete"):
        return action
    if action in ("Judge", "End"):
        return f"{action} {after['state']['reaper'][1]}"
    changed = [
        number
        for variable in ("pc", "scan", "verdict", "flying")
        for number, (old, new) in enumerate(zip(before["state"][variable], after["state"][variable], strict=True), 1)
        if old != new
    ]
    gone = set(before["state"]["dead"]) - set(after["state"]["dead"])
    return f"{action} {min([*changed, *gone])}" if changed or gone else action


def _read_graph(dot: str) -> Graph:
    pc: dict[str, tuple[str, ...]] = {}
    objects: dict[str, tuple[tuple[bool, ...], tuple[bool, ...]]] = {}
    for state, label in re.findall(r'^\s*(s\d+) \[label="(.*)"\];$', dot, re.MULTILINE):
        said = dict(part.split("=", 1) for part in label.replace('\\"', '"').split("\\n"))
        pc[state] = tuple(re.findall(r'"(\w+)"', said["pc"]))
        objects[state] = (_present(said["intent"]), _present(said["target"]))
    moves: dict[tuple[str, int], str] = {}
    for old, new in re.findall(r"^\s*(s\d+) -> (s\d+)", dot, re.MULTILINE):
        for client, (was, becomes) in enumerate(zip(pc[old], pc[new], strict=True)):
            if was not in ("held", becomes):
                moves[old, client] = new
    return Graph("s0", pc, objects, moves)


def _present(ages: str) -> tuple[bool, ...]:
    return tuple(age != "-1" for age in re.findall(r"-?\d+", ages))
