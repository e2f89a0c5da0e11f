"""Tells the steps of a counter-example in words: who did what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

State = Mapping[str, Any]


def tell_step(spec: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """One step between two states of a trace: ``PutIntent 1``, ``Tick``."""
    action = str(after["action"])
    who = _WHO[spec](action, before["state"], after["state"])
    return action if who is None else f"{action} {who}"


def tell_state(spec: str, state: State) -> str:
    """What a state of a loop that never ends looks like: ``looking/ready/held``."""
    return _WHERE[spec](state)


def _client(action: str, old: State, new: State) -> object:
    if action in ("Tick", "Bury", "Delete"):
        return None
    if action in ("Judge", "End"):
        return new["reaper"][1]
    changed = [number for name in ("pc", "scan", "verdict", "flying") for number in _changed(old[name], new[name])]
    gone = set(old["dead"]) - set(new["dead"])
    return min([*changed, *gone], default=None)


def _replica_or_run(action: str, old: State, new: State) -> object:
    """The replica; of a step of its recovery also which run takes it: ``2 (run 1)``."""
    for number in _changed(old["run"], new["run"]):
        return f"{old['run'][number - 1]['of'] or new['run'][number - 1]['of']} (run {number})"
    return _first([*(set(old["active"]) ^ set(new["active"])), *_changed(old["pointer"], new["pointer"])])


def _replica_of_replication(action: str, old: State, new: State) -> object:
    if action == "Elect":
        return new["leader"]
    return _first([number for name in ("work", "commits", "pointer") for number in _changed(old[name], new[name])])


def _party_to_a_quorum(action: str, old: State, new: State) -> object:
    """Of a backup its source, of a failure the entry; else the replica, and the entry whose quorum it joins."""
    match action:
        case "Backup":
            return new["log"][-1]["source"]
        case "Fail":
            return _first(_changed(old["state"], new["state"][: len(old["state"])]))
        case "Join":
            entry = _changed(old["votes"], new["votes"][: len(old["votes"])])[0]
            joined = [vote for vote in new["votes"][entry - 1] if vote not in old["votes"][entry - 1]]
            return f"{joined[0][0]} to entry {entry}"
        case "Open":
            return _reader(old, new, new)
        case "Ask":
            return _reader(old, new, old)
        case "Lose":
            return new["lost"][0]
        case "Lapse" | "Activate":
            return _first(list(set(old["idle"]) ^ set(new["idle"])))
    return _first([*_changed(old["pointer"], new["pointer"]), *old["lost"]])


def _reader(old: State, new: State, during: State) -> object:
    """The replica that a sequential read is at; where reads may overlap also which one: ``2 (read 1)``."""
    (number,) = _changed(old["read"], new["read"])
    replica = during["read"][number - 1]["replica"]
    return replica if len(old["read"]) == 1 else f"{replica} (read {number})"


def _party_to_an_old_store(action: str, old: State, new: State) -> object:
    """Of a backup the replica it is made through; of a rebuilding those that are not set aside; else who changes."""
    if action in ("Backup", "BackupWithQuorum"):
        return new["entries"][-1]["by"]
    if action in ("Take", "Put", "Fail", "Trim"):
        return None
    if action == "Rebuild":
        return "from " + "/".join(str(n) for n, each in enumerate(new["archive"], 1) if _goes_on(each, new["store"]))
    if action in ("Add", "Remove") and old["entries"] != new["entries"]:
        return new["entries"][-1]["of"]
    if action == "Acknowledge":
        return None
    rows = set(old["store"]["rows"]) ^ set(new["store"]["rows"])
    lost = set(old["store"]["lost"]) ^ set(new["store"]["lost"])
    moved = _changed(old["store"]["pointer"], new["store"]["pointer"])
    return _first([*_changed(old["archive"], new["archive"]), *moved, *sorted(rows), *sorted(lost)])


def _party_to_a_number(action: str, old: State, new: State) -> object:
    """Of what the store does the number; of a write who makes it, and whether it leaves an empty object."""
    if action in ("Arrive", "Tick"):
        return _first([*_changed(old["body"], new["body"]), *sorted(set(new["old"]) - set(old["old"]))])
    names = ("look", "seen", "from", "last") if action in ("Begin", "See", "End", "Stop", "Void") else ("pc",)
    who = _first([number for name in names for number in _changed(old[name], new[name])])
    written = _changed(old["body"], new["body"])
    if written and new["body"][written[0] - 1] == "empty":
        return f"{who or ''} (leaves {written[0]} empty)".strip()
    return who


def _machine(action: str, old: State, new: State) -> object:
    """Of who is shown the archive the machine; 0: one without a memory."""
    if action in ("Extend", "Keep", "PutBack"):
        return None
    return _first(_changed(old["shown"], new["shown"])) or 0


def _goes_on(archive: State, store: State) -> bool:
    return archive["store"] == store["id"] and not archive["aside"]


def _stores(state: State) -> str:
    lines = "/".join("+".join(map(str, each["line"])) or "-" for each in state["archive"])
    return f"log {'+'.join(map(str, state['store']['line'])) or '-'}; archives {lines}"


def _places(state: State) -> str:
    return "/".join(state["pc"])


def _log_and_pointers(state: State) -> str:
    kept = ", ".join(str(index) for index in state["log"]) or "nothing"
    return f"log {kept}; pointers {_slashed(state['pointer'])}; active {_slashed(state['active'])}"


def _pointers(state: State) -> str:
    kinds = ", ".join(entry["kind"] for entry in state["log"])
    return f"log {kinds}; pointers {_slashed(state['pointer'])}"


def _quorums(state: State) -> str:
    entries = zip(state["log"], state["state"], strict=True)
    said = ", ".join(f"add {word}" if entry["kind"] == "add" else entry["kind"] for entry, word in entries)
    held = "/".join("+".join(map(str, blocks)) or "-" for blocks in state["held"])
    return f"log {said}; pointers {_slashed(state['pointer'])}; held {held}"


def _slashed(values: Sequence[object]) -> str:
    return "/".join(map(str, values))


def _changed(old: Sequence[object], new: Sequence[object]) -> list[int]:
    return [number for number, (was, is_) in enumerate(zip(old, new, strict=True), 1) if was != is_]


def _first(numbers: Sequence[int]) -> int | None:
    return numbers[0] if numbers else None


_WHO = {
    "PutAndVerify": _client,
    "LogTrimming": _replica_or_run,
    "Replication": _replica_of_replication,
    "Quorum": _party_to_a_quorum,
    "OldStore": _party_to_an_old_store,
    "VoidNumbers": _party_to_a_number,
    "LastSeen": _machine,
}
_WHERE = {
    "PutAndVerify": _places,
    "LogTrimming": _log_and_pointers,
    "Replication": _pointers,
    "Quorum": _quorums,
    "OldStore": _stores,
}
