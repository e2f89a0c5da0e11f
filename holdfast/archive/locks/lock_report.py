"""Explanation of a lock for a person on call: does its holder live, and what would be safe."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from holdfast.archive.locks.lock_table import AVAILABLE, full_plan
from holdfast.archive.locks.owner_status import UNKNOWN, nobodys_state
from locking import Liveness, liveness

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.archive.locks.owner_status import OwnerState
    from locking import LockInfo, Owner

Safe = Literal["wait", "reap", "break", "remove"]
"""What may be done without harm: nothing, `locks reap`, `locks break`, or to remove an object by hand."""


@dataclass(frozen=True)
class Explanation:
    """One lock, explained."""

    lock: LockInfo
    process: Liveness  # whether its holder's process runs, as far as that can be seen from here
    finished: bool  # whether Airflow says that the task or run it belongs to has ended
    airflow_state: str  # Airflow's word for the state of that; "" where it knows of none, or was not asked
    waiting: tuple[LockInfo, ...]  # requests that wait for this lock; a deferred task leaves no trace in the store
    keeps_out: tuple[str, ...]  # operations of this release that it keeps from starting
    safe: Safe  # what may be done now; `advice`: the same in words
    advice: str

    def describe(self) -> dict[str, Any]:
        return {
            **describe_lock(self.lock),
            "finished": self.finished,
            "airflow_state": self.airflow_state,
            "waiting": [other.txn for other in self.waiting],
            "keeps_out": list(self.keeps_out),
            "safe": self.safe,
            "advice": self.advice,
        }


def describe_lock(info: LockInfo) -> dict[str, Any]:
    """Return a lock as `locks list --json` prints it."""
    return {
        "resource": info.resource,
        "mode": info.mode,
        "txn": info.txn,
        "state": info.state,
        "purpose": info.purpose,
        "owner": asdict(info.owner) if info.owner else None,
        "process": liveness(info.owner) if info.owner else "unknown",
        "since": info.since.isoformat() if info.since else None,
        "age_s": round(info.age_s, 1),
        "expires_in_s": None if info.expires_in_s is None else round(info.expires_in_s, 1),
        "words": info.describe(),
    }


def explain(infos: Sequence[LockInfo], *, state_of: Callable[[Owner], OwnerState] = nobodys_state) -> list[Explanation]:
    """Explain all that `locking.inspect` has found, by the states of owners in a scheduler."""
    asking = [info for info in infos if info.state == "intent"]
    return [_explain(info, asking, state_of(info.owner) if info.owner else UNKNOWN) for info in infos]


def _explain(info: LockInfo, asking: Sequence[LockInfo], state: OwnerState) -> Explanation:
    process = liveness(info.owner) if info.owner else "unknown"
    safe, advice = _advise(info, process, state)
    waiting = () if info.state == "intent" else tuple(other for other in asking if _waits_for(other, info))
    kept_out = () if safe == "reap" else _kept_out(info)
    return Explanation(info, process, state.has_ended, state.state, waiting, kept_out, safe, advice)


def _waits_for(other: LockInfo, info: LockInfo) -> bool:
    conflict = "W" in (other.mode, info.mode) or info.state == "foreign"
    return other.resource == info.resource and _counts(info) and conflict


def _counts(info: LockInfo) -> bool:
    return info.state not in ("dead", "expired")


def _kept_out(info: LockInfo) -> tuple[str, ...]:
    source = info.resource.removeprefix("ingest-")
    sources = [source] if source != info.resource else []
    return tuple(
        operation
        for operation in sorted(AVAILABLE)
        if any(planned.is_blocked_by(info) for planned in full_plan(operation, sources) if not planned.skips)
    )


def _advise(info: LockInfo, process: Liveness, state: OwnerState) -> tuple[Safe, str]:
    """Return the safe action, and the reason in words, which end in what to do."""
    if info.state in _SETTLED:
        return _SETTLED[info.state]
    outlives = info.owner is not None and info.owner.scope == "run" and info.state == "held"
    if outlives and info.owner is not None:
        if state.has_ended:
            return "break", (
                f"Airflow says that its run has ended: {_ending(info)}, or break it now if all that the run started "
                "has ended, too."
            )
        run = f"the run {info.owner.run_id} of dag {info.owner.dag_id}" if info.owner.dag_id else "a run"
        if state.is_paused:
            return "wait", (
                f"It belongs to {run}, which is {_words(state)}, but its DAG is paused: no further task of it begins. "
                "KeepLockOperator lets the lock go once nothing of the run was at work for its max_idle; another lock "
                "stays as long as its max_hold allows. Unpause the DAG, or mark the run as failed, which gives the "
                "lock back."
            )
        if state.state:
            return "wait", f"It belongs to {run}, which Airflow says is {_words(state)}: {_ending(info)}."
        return "wait", f"It belongs to {run}, not to a process. Break it if that run is over; else {_ending(info)}."
    if process == "gone":
        return "reap", "Its process is gone: reap ends it, and so does the next one it is in the way of."
    if process == "running" and info.owner is not None:
        return "wait", f"Its process runs on this machine. Wait, or end it in order: kill {info.owner.pid}."
    if state.has_ended:
        return "wait", f"Airflow says that its task has ended, but its process may still be at work; {_ending(info)}."
    if state.state:
        return "wait", f"Airflow says that its task is {_words(state)}: wait, or end the task there; {_ending(info)}."
    where = f"on {info.owner.host}" if info.owner and info.owner.host else "on its own host"
    return "wait", (
        f"Whether its process lives can be seen {where} only; {_ending(info)}. Break it sooner only if you know that "
        "the process is gone."
    )


_SETTLED: dict[str, tuple[Safe, str]] = {
    "foreign": ("remove", "It is not an object of ours and counts as a lock: remove it if it is not needed."),
    "unreadable": (
        "wait",
        "A newer Holdfast has written it, or it is damaged. Look with the newest one in use; break it only if you know "
        "that nobody works on the archive.",
    ),
    "expired": ("reap", "Its lease and grace are over: reap ends it, and so does the next one it is in the way of."),
    "dead": ("reap", "Somebody has ended it; what is left holds nothing, and reap removes it."),
}


def _words(state: OwnerState) -> str:
    return state.state.replace("_", " ")


def _ending(info: LockInfo) -> str:
    if info.expires_in_s is None:
        return "it does not end by itself"
    return f"it ends in {max(info.expires_in_s, 0):.0f} s unless it is renewed"
