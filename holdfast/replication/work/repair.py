"""Repair of an archive's replicas: what is wrong, and what each way out keeps and loses.

Nothing is judged here a second time: the check, the election, the rebuild and the giving up say what they would do.
This puts them into words for a person at night.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal

from holdfast.common.errors import BusyError, DamagedError, HoldfastError, RefusedError, exit_code_of, sentence
from holdfast.common.words import human_span, named
from holdfast.replication.log import status as standing
from holdfast.replication.log.consistency_check import check_others, look_at
from holdfast.replication.log.errors import MissingFilesError, OldStoreError
from holdfast.replication.log.replicas import check_removable, why_lost
from holdfast.replication.work import giving_up, membership, rebuild_store
from holdfast.replication.work.survey import ReadableReplica, UnreadableReplica, decide
from locking.store import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from holdfast.archive.format.model import LogPlace
    from holdfast.replication.log.replicas import ReplicaRow
    from holdfast.replication.log.status import ArchiveStatus, ReplicaStatus
    from holdfast.replication.log.store import CoordinationStore
    from holdfast.replication.work.rebuild_store import Rebuilding
    from holdfast.replication.work.survey import SurveyedReplica
    from holdfast.storage import ObjectStore

_MEND = "mend its place (mount, bucket, network, credentials), then run this again"


@dataclass(frozen=True)
class ArchiveLook:
    """State of replicas by the store and by themselves: positions, or words why they cannot be read."""

    status: ArchiveStatus
    places: Mapping[str, LogPlace | str]
    contradiction: OldStoreError | None


def look(coordination: CoordinationStore, status: ArchiveStatus, places: Callable[[str], ObjectStore]) -> ArchiveLook:
    """Ask an archive's replicas where they stand; the log is read again after that."""
    archive, rows = status.log.archive, [one.row for one in status.replicas]
    positions = look_at(coordination, archive, rows, places)
    readable = {row.url: place for row in rows if not isinstance(place := positions[row.name], str)}
    try:
        coordination.run(lambda c: check_others(c, archive, readable, coordination.url))
    except OldStoreError as error:
        return ArchiveLook(status, positions, error)
    return ArchiveLook(status, positions, None)


@dataclass(frozen=True)
class RepairStep:
    """Verb that a repair runs by itself, on one replica or, where that is "", on all."""

    verb: Literal["sync", "recover", "remove", "rebuild-store"]
    replica: str = ""


@dataclass(frozen=True)
class WayOut:
    """Way out of a trouble, by a command behind `holdfast replica` or by an action in words.

    :param loses: in words; "" where nothing is lost.
    :param step: what a repair runs by itself, as it loses nothing; None: a person decides.
    """

    keeps: str
    loses: str = ""
    action: str = ""
    command: tuple[str, ...] = ()
    step: RepairStep | None = None


@dataclass(frozen=True)
class Finding:
    """Trouble of a replica or of the archive, with the ways out of it."""

    about: str
    problem: str
    ways: tuple[WayOut, ...]
    exit_code: int = HoldfastError.exit_code

    @property
    def step(self) -> RepairStep | None:
        """Return what a repair runs by itself; None where a person has to decide."""
        return next((way.step for way in self.ways if way.step), None)


def findings(
    coordination: CoordinationStore,
    archive: str,
    places: Callable[[str], ObjectStore],
    *,
    troubles: Iterable[BaseException] = (),
) -> list[Finding]:
    """Return what is wrong with an archive's replicas, in the order in which it is to be mended.

    Nothing is changed, but for the note of which replicas are silent.

    :param troubles: what steps have failed with so far: some troubles show only when work is tried.
    """
    (status,) = coordination.run(lambda c: standing.status(c, archive))
    if not status.replicas:
        return [unknown_archive(coordination, coordination.named, places, archive)]
    looked = look(coordination, status, places)
    tried = list(troubles)
    old = looked.contradiction or next((trouble for trouble in tried if isinstance(trouble, OldStoreError)), None)
    if old is not None:  # every other step is refused until that is settled
        return [_old_store(coordination, looked, places, old)]
    if all(one.row.is_lost or _why_lost(looked, one) for one in status.replicas):  # as an election judges, too
        return [_all_lost(looked)]
    troubled = [finding for one in status.replicas for finding in _of_replica(coordination, looked, one)]
    stopped = {index for index, _ in status.missing} | {
        trouble.index for trouble in tried if isinstance(trouble, MissingFilesError)
    }
    troubled += [_missing(coordination, status, index, places) for index in sorted(stopped)]
    troubled += _undecided(status)
    order = ("sync", "remove", "recover")
    return sorted(troubled, key=lambda finding: order.index(finding.step.verb) if finding.step else len(order))


def _of_replica(coordination: CoordinationStore, looked: ArchiveLook, one: ReplicaStatus) -> Iterator[Finding]:
    row, place = one.row, looked.places[one.row.name]
    if row.leaves_by:
        step = RepairStep("remove", row.name)
        way = WayOut("what lies at its place", command=("remove", row.name), step=step)
        yield Finding(row.name, "its removal was begun, and has not come to its end", (way,))
    elif row.is_lost:
        yield _lost(looked, one, place)
    elif isinstance(place, str):
        mend = WayOut("all", action=_MEND)
        yield Finding(row.name, f"{row.url} cannot be read: {place}", (mend, _forget(coordination, looked, row)))
    elif behind := _why_lost(looked, one) or _behind(one):
        way = WayOut("all", command=("sync", row.name), step=RepairStep("sync", row.name))
        yield Finding(row.name, behind, (way,))


def _why_lost(looked: ArchiveLook, one: ReplicaStatus) -> str:
    place = looked.places[one.row.name]
    return "" if isinstance(place, str) else why_lost(one.row, place)


def _behind(one: ReplicaStatus) -> str:
    return f"it is {one.entries:,} {'entry' if one.entries == 1 else 'entries'} behind" if one.entries else ""


def _lost(looked: ArchiveLook, one: ReplicaStatus, place: LogPlace | str) -> Finding:
    row = one.row
    problem = f"it is lost: {row.lost_reason}"
    if row.recovers_from and one.lease_s:
        wait = WayOut("all", action=f"let it end; if it has died, run this again in {human_span(one.lease_s)}")
        return Finding(row.name, f"it is being recovered from {row.recovers_from}", (wait,), BusyError.exit_code)
    recover = WayOut(
        f"all that the others have; backups that only {row.name} has are kept aside at its place",
        command=("recover", row.name),
        step=RepairStep("recover", row.name),
    )
    if not isinstance(place, str) or row.is_new:
        return Finding(row.name, problem, (recover,))
    replace = WayOut(
        "all that the others have",
        f"what only {row.name} may have; the files at {row.url} stay as they are",
        command=("forget", row.name),
    )
    ways = (WayOut("all", action=_MEND), replace)
    return Finding(row.name, f"{problem}; {row.url} cannot be read: {place}", ways)


def _forget(coordination: CoordinationStore, looked: ArchiveLook, row: ReplicaRow) -> WayOut:
    archive = looked.status.log.archive
    try:
        coordination.run(lambda c: check_removable(c, archive, row.name, force=False))
    except RefusedError as error:
        loses = f"what only {row.name} has: {sentence(error)}"
    else:
        loses = f"this copy, and what only {row.name} may have that the log does not know"
    return WayOut("all that the others have", loses, command=("forget", row.name))


def _all_lost(looked: ArchiveLook) -> Finding:
    log = looked.status.log
    readable = {name: place for name, place in looked.places.items() if not isinstance(place, str)}
    ways = []
    if away := [name for name in looked.places if name not in readable]:
        ways.append(WayOut("all", action=f"mend the place of {named(away)} first: it may be the one with most"))
    furthest = sorted(readable.items(), key=lambda item: -item[1].index)
    for name, place in furthest:
        if place.set_aside or place.recovering:
            continue
        beyond = [other for other, its in furthest if its.index > place.index]
        count = membership.given_up(log, place.index)
        lost = [f"{count:,} entries of the log, with the backups they added"] if count else []
        lost += [f"what {named(beyond)} has beyond entry {place.index}, which is kept aside there"] if beyond else []
        lost += [f"what {named(away)} may have"] if away else []
        loses = "; ".join(lost) or f"what the others have and {name} has not, which is kept aside at their places"
        command = ("elect", name, *(membership.needed_words(log, place.index).split() if count else ()))
        ways.append(WayOut(f"what {name} has: entries up to {place.index}", loses, command=command))
    return Finding(
        log.name, "all replicas are lost: no backup is taken, and each is still restored from by its URL", tuple(ways),
        RefusedError.exit_code,
    )  # fmt: skip


def _missing(
    coordination: CoordinationStore, status: ArchiveStatus, index: int, places: Callable[[str], ObjectStore]
) -> Finding:
    problem = f"entry {index} stops replicas: no replica has all of its files"
    try:
        planned = giving_up.prepare(coordination, status.log.archive, index, places=places)
    except (HoldfastError, StoreError) as error:
        way = WayOut("all", action=sentence(error))
        return Finding(status.log.name, problem, (way,), exit_code_of(error))
    entries = ", ".join(str(entry.index) for entry in planned.entries)
    ways = (
        WayOut("all", action=f"find these files, and put them back at a replica: {', '.join(planned.missing)}"),
        WayOut(
            "every moment before",
            f"the backups of {named(sorted(planned.ends))} in the entries {entries}",
            command=("give-up", str(index)),
        ),
    )
    return Finding(status.log.name, problem, ways, DamagedError.exit_code)


def _undecided(status: ArchiveStatus) -> Iterator[Finding]:
    for quorum, remaining in status.pending:
        if not remaining:
            sync = WayOut(
                "the backup, if enough replicas have it by then",
                "the backup, if not: no success was reported",
                command=("sync", "--all"),
            )
            problem = f"the deadline of a quorum is over, and it is not decided: {quorum.describe()}"
            yield Finding(status.log.name, problem, (sync,), BusyError.exit_code)


def _old_store(
    coordination: CoordinationStore, looked: ArchiveLook, places: Callable[[str], ObjectStore], error: OldStoreError
) -> Finding:
    log = looked.status.log
    lost = {one.row.name: one.row.lost_reason for one in looked.status.replicas if one.row.is_lost}
    ways = rebuild_ways(coordination, coordination.named, places, archive=log.archive, lost=lost)
    return Finding(log.name, sentence(error), ways, error.exit_code)


def unknown_archive(
    coordination: CoordinationStore, urls: Mapping[str, str], places: Callable[[str], ObjectStore], archive: str | None
) -> Finding:
    """Return the finding of a store that knows no such archive: it may be a wrong address, so no step."""
    address = WayOut("all", action="is the address right (--store, HOLDFAST_STORE, store in archives.yaml)? Correct it")
    ways = rebuild_ways(coordination, urls, places, archive=archive, lost={}, alone=False)
    about = archive or "the archive"
    return Finding(about, "the coordination store knows no replica of it", (address, *ways), DamagedError.exit_code)


def rebuild_ways(
    coordination: CoordinationStore,
    urls: Mapping[str, str],
    places: Callable[[str], ObjectStore],
    *,
    archive: str | None,
    lost: Mapping[str, str],
    alone: bool = True,
) -> tuple[WayOut, ...]:
    """Return the ways in which an archive's log can be rebuilt from its replicas.

    :param alone: a repair may do it by itself, where nothing is lost by it.
    """
    try:
        planned = rebuild_store.prepare(coordination, urls, word=archive, places=places)
    except (HoldfastError, StoreError) as error:
        return (WayOut("all", action=sentence(error)),)
    if not planned.survey.objections:
        loses = f"{planned.given_up:,} entries of the log that no replica has executed" if planned.given_up else ""
        step = RepairStep("rebuild-store") if alone and not loses else None
        return (WayOut(_kept(planned.survey.source), loses, command=_rebuild(planned, urls), step=step),)
    unread = [replica for replica in planned.replicas if isinstance(replica, UnreadableReplica)]
    mend = [
        WayOut("all", action=f"mend the place of {replica.name} ({replica.url}): {replica.problem}")
        for replica in unread
    ]
    return (*mend, *_choices(planned, urls, [replica.name for replica in unread], lost))


def _choices(
    planned: Rebuilding, urls: Mapping[str, str], unread: Sequence[str], lost: Mapping[str, str]
) -> Iterator[WayOut]:
    """Yield a way for each replica that the log may go on from, where they contradict each other."""
    objecting = {fate.replica.name for fate in planned.survey.fates if fate.objection} | {planned.survey.source.name}
    usable = [
        replica for replica in planned.replicas if isinstance(replica, ReadableReplica) and replica.name in objecting
    ]
    for replica in sorted(usable, key=lambda replica: (replica is not planned.survey.source, -replica.place.index)):
        chosen = partial(decide, planned.replicas, source=replica.name, without=unread, lost=lost)
        acknowledged = chosen().objections
        survey = chosen(lose_acknowledged=True)
        others = [fate for fate in survey.fates if fate.replica.name in objecting and fate.lost]
        more = "; ".join((*(f"what {fate.replica.name} has more ({fate.lost})" for fate in others), *acknowledged))
        loses = f"{more}. All files stay at their places, and the recovery keeps them aside"
        options = [word for name in unread for word in ("--without", name)]
        options += ["--from", replica.name] if len(usable) > 1 or replica.name in lost else []
        options += ["--lose-acknowledged"] if acknowledged else []
        yield WayOut(_kept(replica), loses, command=(*_rebuild(planned, urls), *options))


def _kept(source: ReadableReplica) -> str:
    return f"all that {source.name} has, which has entries up to {source.place.index}"


def _rebuild(planned: Rebuilding, urls: Mapping[str, str]) -> tuple[str, ...]:
    """Return the words of the command; for a store that knows nothing, with the replicas."""
    names: list[SurveyedReplica] = [] if planned.record or urls else list(planned.replicas)
    return ("rebuild-store", *(word for replica in names for word in ("--replica", f"{replica.name}={replica.url}")))
