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

from bench.support.missing import MissingError
from tests.support.specs.tla_steps import tell_state, tell_step

_ROOT = Path(__file__).resolve().parents[3]
SPECS = _ROOT / "specs"
_ENVIRONMENT = dict(os.environ)
"""For the checker, which threads start: one that inherits it may fail (EFAULT) where pytest changes it meanwhile."""

LIMIT = 300.0
"""Seconds one model may take on a busy machine."""


@dataclass(frozen=True)
class Outcome:
    """What the checker found.

    :param spec: the module
    :param status: ``ok``, ``invariant_violation``, ``property_violation`` (of a single step) or ``liveness_violation``
    :param violated: the name of what does not hold
    :param states: how many states there are, or were seen until then
    :param trace: the states of the counter-example, each with its action
    :param loop: the states that follow for ever, where it has no end
    """

    spec: str
    status: str
    violated: str | None
    states: int
    trace: tuple[Mapping[str, Any], ...]
    loop: tuple[Mapping[str, Any], ...]

    def steps(self) -> list[str]:
        """The counter-example in words: ``PutIntent 1``, ``Tick``."""
        return [tell_step(self.spec, before, after) for before, after in pairwise(self.trace)]

    def rounds(self) -> list[str]:
        """What each state of the loop looks like; of the locks, where the clients are: ``looking/ready/held``."""
        return [tell_state(self.spec, state["state"]) for state in self.loop]


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
        raise MissingError(
            "specs",
            f"There is no model checker at {program}: `make setup-tests` builds it, or set HOLDFAST_TLA to its path.",
        )
    return program


def check(config: str, constants: Mapping[str, str] | None = None, *, spec: str = "PutAndVerify") -> Outcome:
    """Check ``specs/<spec>.tla`` with ``specs/<config>.cfg``; ``constants`` replace the config's."""
    said = _run(spec, config, constants or {}, "--json")
    answer = json.loads(said[said.index('{"status"') :])
    stats = answer.get("stats", {})
    return Outcome(
        spec=spec,
        status=answer["status"],
        violated=answer.get("invariant_name") or answer.get("property"),
        states=stats.get("states_explored", 0),
        trace=tuple(answer.get("trace") or answer.get("prefix", ())),
        loop=tuple(answer.get("cycle", ())),
    )


def graph(config: str, constants: Mapping[str, str] | None = None) -> Graph:
    """The state graph of a model of ``PutAndVerify.tla`` in which clients only act one by one."""
    with tempfile.TemporaryDirectory() as folder:
        dot = Path(folder) / "graph.dot"
        _run("PutAndVerify", config, constants or {}, "--export-dot", str(dot), "--dot-mode", "full", "--continue")
        return _read_graph(dot.read_text())


def _run(spec: str, config: str, constants: Mapping[str, str], *options: str) -> str:
    command = [str(find_tla()), f"{spec}.tla", "--config", f"{config}.cfg", *options]
    for name, value in constants.items():
        command += ["-c", f"{name}={value}"]
    done = subprocess.run(
        command, cwd=SPECS, env=_ENVIRONMENT, capture_output=True, text=True, timeout=LIMIT, check=False
    )
    if done.returncode not in (0, 1):
        said = f"{done.stdout[-2000:]}{done.stderr[-2000:]}"
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}: {said}")
    return done.stdout


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
