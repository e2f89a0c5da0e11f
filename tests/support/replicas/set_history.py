"""From what clients saw of backups with a quorum and of sequential reads to operations on a set of blocks.

As an object, an archive is simple: a backup inserts its block, and a sequential read shows exactly what was inserted.
Each takes effect at one moment between its call and its return; porcupine looks for the moments.

A backup that was acknowledged is an insertion. One that failed is none: a read that shows its block has no place in any
order. Of one whose outcome nobody has told, since its process was killed or the answer was lost, that it was shown says
that it took effect, before the first read returned which shows it; one that was never shown promises nothing.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.support.missing import MissingError

_CHECKER = Path(__file__).resolve().parents[3] / ".work" / "bin" / "check-history"


@dataclass(frozen=True, kw_only=True)
class Operation:
    """Something that took effect at one moment between `call` and `returned` (nanoseconds, both included).

    :param insert: the number of a block; None: it is a read, which has shown `blocks`.
    """

    number: int
    insert: int | None = None
    blocks: tuple[int, ...] = ()
    call: int
    returned: int


@dataclass(frozen=True)
class Verdict:
    """What the checker says.

    :param result: `Ok`, `Illegal`, or `Unknown` where the time was not enough.
    :param words: what is wrong.
    """

    result: str
    inserted: int
    reads: int
    words: str


def read_history(folder: Path) -> list[dict[str, Any]]:
    """Return what all clients saw, but for a last line that a killed one has not written to its end."""
    lines = [line for path in sorted(folder.glob("*.jsonl")) for line in path.read_text().splitlines(keepends=True)]
    return [json.loads(line) for line in lines if line.endswith("\n")]


def operations(events: Iterable[dict[str, Any]]) -> list[Operation]:
    """Return what happened to the set.

    :param events: `begun` with a block, then `added` or `failed` with it, where that was told; `read` of blocks from
        `since` on; each with when it was seen (`at`).
    """
    seen = list(events)
    reads = sorted((each for each in seen if each["what"] == "read"), key=lambda each: each["at"])
    first_shown = {block: read["at"] for read in reversed(reads) for block in read["blocks"]}
    told = {each["block"]: each for each in seen if each["what"] in {"added", "failed"}}
    begun = {each["block"]: each["at"] for each in seen if each["what"] == "begun"}
    numbers = {block: number for number, block in enumerate(sorted({*begun, *first_shown}))}
    found: list[Operation] = []
    for block, at in begun.items():
        outcome = told.get(block)
        if outcome is None and block in first_shown:
            found.append(Operation(number=len(found), insert=numbers[block], call=at, returned=first_shown[block]))
        elif outcome is not None and outcome["what"] == "added":
            found.append(Operation(number=len(found), insert=numbers[block], call=at, returned=outcome["at"]))
    for read in reads:
        blocks = tuple(sorted(numbers[block] for block in read["blocks"]))
        found.append(Operation(number=len(found), blocks=blocks, call=read["since"], returned=read["at"]))
    return found


def check(history: list[Operation], *, limit: float = 60.0) -> Verdict:
    """Say whether some order of the operations explains them all.

    :param limit: seconds.
    """
    if not os.access(_CHECKER, os.X_OK):
        raise MissingError("porcupine", f"There is no checker at {_CHECKER}: `make setup-tests` builds it.")
    done = subprocess.run(
        [_CHECKER, "-set", "-timeout", f"{limit}s"],
        input="".join(f"{json.dumps(asdict(each))}\n" for each in history),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode not in {0, 1}:
        raise ValueError(f"The checker could not read the history: {done.stderr}")
    said = json.loads(done.stdout)
    reads = sum(each.insert is None for each in history)
    return Verdict(said["result"], len(history) - reads, reads, _words(said, history))


def _words(said: dict[str, Any], history: list[Operation]) -> str:
    """Return what is wrong."""
    if said["result"] != "Illegal":
        return ""
    stuck, there = history[said["stuck"]], set(said.get("blocks", ()))
    if stuck.insert is not None:
        return f"the insertion of {stuck.insert} has no place in any order: {stuck}"
    shown = set(stuck.blocks)
    return (
        f"a read has no place in any order: it lacks {sorted(there - shown)} and shows {sorted(shown - there)}: {stuck}"
    )
