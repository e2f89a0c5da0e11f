"""Coordination stores that were brought back from older copies, and rebuilt from their replicas."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from holdfast.archive import Archive, Change
from holdfast.archive.format.model import LogPlace
from holdfast.replication.log.replicas import replicas
from holdfast.replication.log.store import CoordinationStore
from holdfast.replication.work import membership, rebuild_store
from holdfast.replication.work.rebuild_store import Rebuilding, prepare
from holdfast.replication.work.survey import ReadableReplica, ask
from holdfast.storage import ObjectStore, open_store
from locking.store import StoreError
from tests.support.replicas.replicated import Replicas, nothing

_numbers = itertools.count(1)


class KilledError(StoreError):
    """Stands for the end of the process."""


def bring_back(two: Replicas, *, ahead: str, behind: str) -> None:
    """Have a replica go one entry further than the other, and bring the store back from before that."""
    two.back_up(ahead)
    two.back_up(ahead)
    two.sync(behind)
    put_back = copied(two)
    two.back_up(ahead)
    put_back()


def copied(given: Replicas) -> Callable[[], None]:
    """Copy the coordination store; returns what puts the copy back, again and again."""
    path = Path(given.coordination.url.removeprefix("sqlite:///"))
    shutil.copy(path, copy := path.with_suffix(f".copy-{next(_numbers)}"))

    def put_back() -> None:
        given.coordination.close()
        shutil.copy(copy, path)

    return put_back


def rebuild(
    coordination: CoordinationStore,
    urls: dict[str, str],
    *,
    force: bool = False,
    places: Callable[[str], ObjectStore] = open_store,
    **options: Any,
) -> Rebuilding:
    """Prepare a rebuilding, and carry it out."""
    planned = prepare(coordination, urls, places=places, **options)
    return rebuild_store.rebuild(coordination, planned, force=force, places=places)


def urls(given: Replicas, *names: str) -> dict[str, str]:
    """Return the places of replicas by name; of near and far, where none are named."""
    return {name: given.place(name).url for name in names or ("near", "far")}


def become(given: Replicas, done: Rebuilding) -> dict[str, str]:
    """What a rebuilding has made of each replica, once it is known that the store tells the same."""
    rows = given.coordination.run(lambda c: replicas(c, given.archive))
    fates = {fate.replica.name: fate.lost for fate in done.survey.fates}
    assert {row.name: row.lost_reason.removeprefix("when the store was rebuilt: ") for row in rows} == fates
    assert {row.name: row.is_lost for row in rows} == {name: bool(lost) for name, lost in fates.items()}
    return fates


def go_on(given: Replicas, *names: str) -> None:
    """Recover, back up and sync: then all are equal and whole."""
    for row in given.coordination.run(lambda c: replicas(c, given.archive)):
        if row.is_lost:
            given.recover(row.name)
    for name in names or ("near", "far"):
        given.back_up(name)
    for name in names or ("near", "far"):
        given.sync(name)
    states = [given.state(name) for name in names or ("near", "far")]
    assert all(given.is_whole(name) for name in names or ("near", "far"))
    assert len({frozenset(state.blocks) for state in states}) == 1
    assert all(dict(state.ends) == dict(states[0].ends) for state in states)


def at_place(change: Callable[[Any], Change], log: LogPlace, state: Any) -> Change:
    """Return what is planned for a state as the commit of an entry."""
    planned = change(state)
    return Change(kind=planned.kind, add=planned.add, log=log)


def commit(given: Replicas, name: str, change: Change, **place: Any) -> None:
    """Have a replica make a commit by which it then stands at some place in the log."""
    log = given.place_of(name).model_copy(update=place)
    archive = Archive.open(given.place(name))
    archive.add(lambda state: replace(change, log=log), check=nothing, fence=None)


def furthest(coordination: CoordinationStore, archive: str) -> str:
    """Return the replica to elect where all are lost."""
    rows = coordination.run(lambda c: replicas(c, archive))
    answers = ask({row.name: row.url for row in rows}, open_store)
    readable = [each for each in answers if isinstance(each, ReadableReplica) and not each.place.recovering]
    usable = [each for each in readable if not each.place.set_aside] or readable
    best = max(usable, key=lambda each: (each.place.index, each.name), default=None)
    return best.name if best else rows[0].name


def away(three: Replicas, *names: str, back: bool = False) -> None:
    """Have the places of replicas be away, or there again."""
    for name in names:
        here, there = three.folder / name, three.folder / f"{name}-away"
        (there if back else here).rename(here if back else there)


def go_two_ways(two: Replicas) -> None:
    """Have both replicas execute an entry of the same index that the other one does not have."""
    put_back = copied(two)
    two.back_up("near")
    put_back()
    away(two, "near")
    two.back_up("far")
    away(two, "near", back=True)


def joined(given: Replicas, name: str) -> None:
    """Add a replica as the command does."""
    membership.add(given.coordination, given.archive, name, given.place(name).url)
    given.recover(name)
