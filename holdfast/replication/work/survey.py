"""Survey of an archive's replicas, from their own commits: what becomes of each where the log goes on from one.

A replica's commits name the entries that it has executed. So the furthest one shows how far the log was; another one
can be made equal to it where its commits, or else its blocks, show that it has nothing that this one lacks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache, partial
from types import MappingProxyType
from typing import TYPE_CHECKING

from holdfast.archive.archive import IDENTITY_KEY, Archive
from holdfast.common.errors import RefusedError, UsageError, sentence
from holdfast.common.side_by_side import ask_side_by_side
from holdfast.replication.log.log import DROP
from locking.store import ObjectNotFound

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from holdfast.archive.format.block_ref import Placed
    from holdfast.archive.format.model import LogPlace
    from holdfast.archive.format.state import Removed, State
    from holdfast.storage import ObjectStore


@dataclass(frozen=True)
class ReadableReplica:
    """Replica with an archive that could be read; `place` is where it says that it stands."""

    name: str
    url: str
    archive: Archive
    place: LogPlace


@dataclass(frozen=True)
class UnreadableReplica:
    """Replica without an archive that could be read; something else may lie at its place."""

    name: str
    url: str
    problem: str


LIMIT_S = 60.0
"""So many seconds all replicas together have to be read in: a person decides by what they have."""

SurveyedReplica = ReadableReplica | UnreadableReplica

_NONE_LOST: Mapping[str, str] = MappingProxyType({})


def ask(urls: Mapping[str, str], places: Callable[[str], ObjectStore]) -> list[SurveyedReplica]:
    """Read the archives of replicas at their URLs, by name, side by side."""
    answers = ask_side_by_side(
        {name: partial(_ask, name, urls[name], places) for name in sorted(urls)}, limit_s=LIMIT_S
    )
    return [
        UnreadableReplica(name, urls[name], sentence(answer)) if isinstance(answer, Exception) else answer
        for name, answer in answers.items()
    ]


def _ask(name: str, url: str, places: Callable[[str], ObjectStore]) -> SurveyedReplica:
    try:
        store = places(url)
        store.head(IDENTITY_KEY)
        archive = Archive.open(store, recovering=True)
    except ObjectNotFound:
        return UnreadableReplica(name, url, f"there is no {IDENTITY_KEY}, so no archive")
    except Exception as error:  # noqa: BLE001 - a fault of one does not hide the others
        return UnreadableReplica(name, url, sentence(error))
    place = archive.state.log
    if place is not None and place.replica == name:
        return ReadableReplica(name, archive.store.url, archive, place)
    what = f"replica {place.replica}" if place else "an archive at one place"
    return UnreadableReplica(name, url, f"{what} lies there ({archive.identity.name}, {archive.identity.id})")


def of_archive(replicas: Sequence[SurveyedReplica], archive: str) -> list[SurveyedReplica]:
    """Return the replicas, with those of other archives than this id as unreadable."""

    def look(replica: SurveyedReplica) -> SurveyedReplica:
        if isinstance(replica, UnreadableReplica) or replica.archive.identity.id == archive:
            return replica
        identity = replica.archive.identity
        return UnreadableReplica(replica.name, replica.url, f"a replica of {identity.name} ({identity.id}) lies there")

    return [look(replica) for replica in replicas]


@dataclass(frozen=True)
class ReplicaFate:
    """Fate of a replica when the log goes on.

    :param lost: why it has to be recovered; "": the log goes on with it. `was_lost`: the store said so before.
    :param objection: what it may have that no other one has, and how to say that this is meant; "": nothing.
    """

    replica: SurveyedReplica
    lost: str = ""
    objection: str = ""
    was_lost: bool = False


@dataclass(frozen=True)
class Survey:
    """Survey of an archive's replicas, with the fate of each where the log goes on from `source`."""

    source: ReadableReplica
    fates: tuple[ReplicaFate, ...]

    @property
    def objections(self) -> tuple[str, ...]:
        """Return the objections that must be settled first."""
        return tuple(fate.objection for fate in self.fates if fate.objection)

    def check(self) -> None:
        """Check that no replica has data that would be lost unasked (RefusedError)."""
        if self.objections:
            raise RefusedError("; ".join(self.objections))


def decide(
    replicas: Sequence[SurveyedReplica],
    *,
    source: str | None = None,
    without: Collection[str] = (),
    lost: Mapping[str, str] = _NONE_LOST,
    lose_acknowledged: bool = False,
) -> Survey:
    """Choose the replica that the log goes on from, and each one's fate.

    :param source: its name, also of one that was set aside; None: of the others that are not lost, the furthest.
    :param without: names of replicas that are left out, even with files that no other has.
    :param lost: why the store says that replicas are lost, by name: commits do not show damaged files.
    :param lose_acknowledged: also backups whose quorum had succeeded are given up where lines differ.
    :raises UsageError, RefusedError: there is no such replica; or the log could go on from none.
    """
    names = {replica.name for replica in replicas}
    for name in (*without, *([source] if source else ())):
        if name not in names:
            raise UsageError(f"there is no replica {name} among these: {', '.join(sorted(names)) or 'none'}")
    usable = [replica for replica in replicas if isinstance(replica, ReadableReplica) and not replica.place.recovering]
    meant = (replica for replica in usable if replica.name not in without and source in (None, replica.name))
    chosen = [replica for replica in meant if source or not replica.place.set_aside]
    if not chosen:
        said = "; ".join(f"{replica.name}: {_why_not(replica)}" for replica in replicas)
        raise RefusedError(f"there is no replica that the log could go on from ({said}): mend the place of one")
    best = max(
        chosen,
        key=lambda replica: (
            replica.name not in lost,
            replica.place.index,
            len(replica.archive.state.blocks),
            replica.name,
        ),
    )
    chosen_by = _Choice(best, source is not None, frozenset(without), lose_acknowledged)
    fates = (_still_lost(chosen_by.fate(replica), best, source is not None, lost) for replica in replicas)
    return Survey(best, tuple(fates))


_SET_ASIDE = "it was set aside"


def _why_not(replica: SurveyedReplica) -> str:
    if isinstance(replica, UnreadableReplica):
        return replica.problem
    if replica.place.recovering:
        return "it is being recovered"
    return (
        f"{_SET_ASIDE}: --from {replica.name} goes on from it all the same"
        if replica.place.set_aside
        else "it was not chosen"
    )


def _still_lost(fate: ReplicaFate, best: ReadableReplica, is_chosen: bool, lost: Mapping[str, str]) -> ReplicaFate:
    why = lost.get(fate.replica.name)
    if why is None:
        return fate
    if fate.replica is not best:
        return replace(fate, lost=why, was_lost=True)
    sure = f"{best.name} is lost ({why}), and so are all that could be read: say by --from {best.name} that it is right"
    return fate if is_chosen else replace(fate, objection=sure)


@dataclass(frozen=True)
class _Choice:
    """Replica that the log goes on from; `is_said`: it was named, and is not only the furthest."""

    best: ReadableReplica
    is_said: bool
    without: frozenset[str]
    lose_acknowledged: bool

    def fate(self, replica: SurveyedReplica) -> ReplicaFate:
        if replica is self.best:
            return ReplicaFate(replica)
        if isinstance(replica, UnreadableReplica):
            if replica.name in self.without:
                return ReplicaFate(replica, replica.problem)
            away = f"{replica.name} ({replica.url}) cannot be read: {replica.problem}"
            may_have = f"{away}. It may have what no other replica has"
            return ReplicaFate(
                replica, replica.problem, f"{may_have}: mend that, or leave it out by --without {replica.name}"
            )
        if replica.place.recovering:
            return ReplicaFate(replica, lost="it was not recovered to its end")
        if replica.place.set_aside:  # a person has decided on what it has more, and only its recovery ends that
            return ReplicaFate(replica, lost=_SET_ASIDE)
        more = _more(replica, self.best)
        if replica.name in self.without:
            return ReplicaFate(replica, "it was left out", self._acknowledged(replica) if more else "")
        if more:
            return ReplicaFate(replica, f"it {more}", self._contradicts(replica, more))
        return ReplicaFate(replica, lost=_lack(replica, self.best))

    def _contradicts(self, replica: ReadableReplica, more: str) -> str:
        if not self.is_said:
            acknowledged = "".join(
                f"; {one.name} has acknowledged the quorum of a backup by entry {one.place.acknowledged}"
                for one in (replica, self.best)
                if one.place.acknowledged
            )
            return f"{replica.name} {more}: say by --from which of both the log goes on from{acknowledged}"
        return self._acknowledged(replica)

    def _acknowledged(self, replica: ReadableReplica) -> str:
        """Return in words which acknowledged backup would, or may, be given up with a replica."""
        index = replica.place.acknowledged
        if self.lose_acknowledged or not index or not _lacks(self.best, replica, index):
            return ""
        return (
            f"{replica.name} has executed entry {index}, by which the quorum of a backup was acknowledged, and "
            f"{self.best.name} has not all that was there then: --lose-acknowledged gives that up"
        )


def _more(replica: ReadableReplica, best: ReadableReplica) -> str:
    """Return in words the surplus of a replica over another one; "" where it could be made equal to that one."""
    index = replica.place.index
    if index > best.place.index:
        return f"has entries up to {index}, and {best.name} up to {best.place.index}"
    mine, its = _entry_at(replica.archive, index), _entry_at(best.archive, index)
    if mine and its and mine != its:
        return f"has executed another entry {index} than {best.name}"
    if mine and its and index < best.place.index:  # what was there then, the other one had, too
        return ""
    theirs = best.archive.state
    blocks = replica.archive.state.blocks.keys() - theirs.blocks.keys() - theirs.removed.keys()
    return f"has {len(blocks)} blocks at entry {index} that {best.name} has not" if blocks else ""


def _lacks(best: ReadableReplica, replica: ReadableReplica, index: int) -> bool:
    """Return whether a replica lacks what another one had at an entry, and did not truncate since.

    Which backups had succeeded by then, commits do not show: so all that were there count.
    """
    mine = _entry_at(replica.archive, index)
    if mine and mine == _entry_at(best.archive, index):
        return False
    last = _commit_at(replica.archive, index)
    state, theirs = replica.archive.state, best.archive.state
    had = _with_parts(placed for placed in state.blocks.values() if placed.commit <= last or placed.head.parts)
    joined = (block for block in state.removed.values() if block.added <= last < block.removed)
    had |= _removed_by(replica.archive, joined, lambda kind: kind == "compaction")
    has = _with_parts(theirs.blocks.values())
    return not had <= has | _removed_by(best.archive, theirs.removed.values(), lambda kind: kind != DROP)


def _commit_at(archive: Archive, index: int) -> int:
    return next(
        (commit.sequence for commit in archive.newest_first() if commit.log is not None and commit.log.index <= index),
        0,
    )


def _with_parts(blocks: Iterable[Placed]) -> set[str]:
    """Return the ids of blocks, and of those that they stand for."""
    return {identity for placed in blocks for identity in (placed.id, *(part.block.id for part in placed.head.parts))}


def _removed_by(archive: Archive, removed: Iterable[Removed], is_meant: Callable[[str], bool]) -> set[str]:
    """Return the ids of removed blocks whose removing commits are of a kind that is meant."""
    kind = cache(lambda number: archive.commit(number).kind)
    return {block.id for block in removed if is_meant(kind(block.removed))}


def _lack(replica: ReadableReplica, best: ReadableReplica) -> str:
    """Return in words the deficit of a replica against another one."""
    if replica.place.index < best.place.index:
        return f"it ends at entry {replica.place.index}, and {best.name} at {best.place.index}"
    if _content(replica.archive.state) != _content(best.archive.state):
        return f"it has not all that {best.name} has at entry {best.place.index}"
    return ""


def _content(state: State) -> tuple[object, ...]:
    return (state.blocks.keys(), state.holds.keys(), state.ends, state.streams)


def _entry_at(archive: Archive, index: int) -> str:
    """Return the id of an entry that a replica has executed, as its commits name it; else ""."""
    for commit in archive.newest_first():
        place = commit.log
        if place is None or place.index < index or place.recovering:
            return ""  # what it executed before its recovery may be of another line
        if place.index == index and place.entry:
            return place.entry
    return ""
