"""Consistency check between the coordination store and the replicas.

A store that was brought back from an older copy would give the same index to another entry. So before anything relies
on the store, all readable replicas are asked how far they are: those that it knows, and those that a configuration
names. They are asked side by side, under one time limit.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

from holdfast.archive.archive import IDENTITY_KEY, Archive
from holdfast.common.errors import DamagedError, HoldfastError, UsageError, sentence
from holdfast.common.side_by_side import NoAnswerError, ask_side_by_side
from holdfast.common.words import human_span
from holdfast.replication.log import line
from holdfast.replication.log.errors import OldStoreError, SilentReplicaError
from holdfast.replication.log.replicas import log_state, replica, replicas
from holdfast.replication.log.silence import FIRST_PAUSE_S, NotAsked, is_paused, note_answers, silence_words
from holdfast.replication.log.store import clock
from locking.one_line import line_logger
from locking.store import ObjectNotFound, StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from sqlalchemy import Connection

    from holdfast.archive.format.model import LogPlace
    from holdfast.replication.log.replicas import LogState, ReplicaRow
    from holdfast.replication.log.store import CoordinationStore
    from holdfast.storage import ObjectStore

logger = line_logger(__name__)

T = TypeVar("T")

OLD_STORE = (
    "the store was brought back from an older copy. Nothing may be added to this log any more: see "
    "docs/runbooks/the-coordination-store-is-gone.md"
)


LIMIT_S = 10.0
"""So many seconds all replicas together have to say how far they are."""


@dataclass(frozen=True)
class Answers:
    """Answers of an archive's other replicas.

    :param places: positions in the log, by URL.
    :param unread: names of those that could not be read, new ones too.
    """

    places: Mapping[str, LogPlace]
    not_asked: tuple[NotAsked, ...] = ()
    unread: frozenset[str] = frozenset()


@dataclass(frozen=True)
class KnownReplica:
    """The log and one replica by the coordination store; `contradiction` is "" where they agree."""

    log: LogState
    row: ReplicaRow
    contradiction: str


def look_up(connection: Connection, archive: str, place: LogPlace) -> KnownReplica:
    """Return the state of the log and of the replica that stands at a place."""
    log = log_state(connection, archive)
    row = replica(connection, archive, place.replica)
    return KnownReplica(log, row, line.contradiction(connection, log, place))


def check_replica(record: KnownReplica, url: str, place: LogPlace, store: str) -> None:
    """Check a replica against the coordination store: its log, its URL, its entries.

    :raises UsageError: it is a copy of the replica.
    :raises OldStoreError: store and archive contradict each other.
    """
    if record.log.store != place.store:
        raise OldStoreError(
            f"{url} follows the log of store {place.store}, and {store} has {record.log.store}: it is another "
            "store, or a new one"
        )
    if record.row.url != url:
        raise UsageError(
            f"{url} says that it is replica {place.replica}, which is at {record.row.url}: it is a copy of that one. "
            "Where folders or mounts were exchanged, exchange them back. "
            f"Where the replica was moved, 'holdfast replica remove {place.replica}' first, then add it again"
        )
    _check_line(record.contradiction, record.log, url, store)


def _check_line(contradiction: str, log: LogState, url: str, store: str) -> None:
    if contradiction:
        raise OldStoreError(f"{url} {contradiction} (the log in {store} ends at {log.head}): {OLD_STORE}")


_silent_until: dict[str, float] = {}
"""By URL, until when this process does not ask a place that has not answered, by its own clock."""


def _named_places(
    urls: Collection[str], named: Mapping[str, str], places: Callable[[str], ObjectStore]
) -> tuple[dict[str, tuple[str, ObjectStore]], list[NotAsked]]:
    """Return the configured places that the store does not know, by URL, and those that cannot be asked.

    However they are written, each place is asked once. What lies there need not be a replica.
    """
    stores: dict[str, tuple[str, ObjectStore]] = {}
    not_asked: list[NotAsked] = []
    for name, url in named.items():
        if url in urls:  # as nearly always: to open a place that is written otherwise takes longer
            continue
        try:
            store = places(url)
        except (HoldfastError, StoreError) as error:  # a secret may stand in such a URL: it is not shown
            not_asked.append(NotAsked(name, "as configured", sentence(error)))
            continue
        if store.url in urls or store.url in stores:
            continue
        if (pause := _silent_until.get(store.url, 0.0) - time.monotonic()) > 0:
            why = f"it has not answered, and is asked again in {human_span(pause)}"
            not_asked.append(NotAsked(name, store.url, why))
            continue
        stores[store.url] = (name, store)
    return stores, not_asked


def _named_position(archive: str, store: ObjectStore) -> LogPlace | None:
    store = store.impatient()
    try:
        store.head(IDENTITY_KEY)
    except ObjectNotFound:
        return None
    opened = Archive.open(store, recovering=True)
    return opened.state.log if opened.identity.id == archive else None


def ask_others(
    coordination: CoordinationStore,
    archive: str,
    name: str,
    places: Callable[[str], ObjectStore],
) -> Answers:
    """Return the positions of the other replicas, also of lost and recovering ones.

    One that does not answer in time is silent from then on, and is asked again after a pause.

    :param name: of the replica that asks; "": all are asked.
    """
    rows, now = coordination.run(lambda c: (replicas(c, archive), clock(c)))
    others = [row for row in rows if row.name != name]
    asked = [row for row in others if not is_paused(row, now)]
    named, named_not_asked = _named_places({row.url for row in rows}, coordination.named, places)

    def question(row: ReplicaRow) -> LogPlace | None:
        return _position(archive, row, places)

    beside = {url: partial(_named_position, archive, store) for url, (_, store) in named.items()}
    answers = _ask(coordination, archive, asked, question, beside)
    positions: dict[str, LogPlace] = {}
    not_asked: list[NotAsked] = []
    for row in others:
        answer = silence_words(row, now) if is_paused(row, now) else _answer(answers[row.name])
        if isinstance(answer, str):
            if row.pointer or is_paused(row, now):  # else it never had anything
                not_asked.append(NotAsked(row.name, row.url, answer))
        elif answer is not None:
            positions[row.url] = answer
    unread = frozenset(row.name for row in others if row.url not in positions)
    for url, (name_there, _) in named.items():
        if isinstance(answers[url], NoAnswerError):
            _silent_until[url] = time.monotonic() + FIRST_PAUSE_S
        answer = _answer(answers[url])
        if isinstance(answer, str):
            named_not_asked.append(NotAsked(name_there, url, answer))
        elif answer is not None:
            positions[url] = answer
    return Answers(positions, (*not_asked, *named_not_asked), unread)


def _answer(answer: LogPlace | Exception | None) -> LogPlace | str | None:
    """Return a position, or in words why there is none; a fault of ours is raised."""
    if isinstance(answer, (HoldfastError, StoreError)):
        return sentence(answer)
    if isinstance(answer, Exception):
        raise answer
    return answer


def run_agreed(
    coordination: CoordinationStore,
    archive: str,
    work: Callable[[Connection, Answers], T],
    places: Callable[[str], ObjectStore],
    *,
    but_for: str = "",
) -> T:
    """Run a transaction where no readable replica contradicts the coordination store.

    :param but_for: name of a replica that was looked at already.
    :raises OldStoreError: one does.
    """
    answers = ask_others(coordination, archive, but_for, places)
    for silent in answers.not_asked:
        logger.warning("%s.", silent.words)

    def checked(connection: Connection) -> T:
        check_others(connection, archive, answers.places, coordination.url)
        return work(connection, answers)

    return coordination.run(checked)


def _ask(
    coordination: CoordinationStore,
    archive: str,
    rows: Sequence[ReplicaRow],
    question: Callable[[ReplicaRow], T],
    beside: Mapping[str, Callable[[], T]] = MappingProxyType({}),
) -> dict[str, T | Exception]:
    """Ask replicas side by side, record the silent ones; `beside` has questions to other places."""
    questions: dict[str, Callable[[], T]] = {row.name: partial(question, row) for row in rows}
    answers = ask_side_by_side({**questions, **beside}, limit_s=LIMIT_S)
    silent = {row.name for row in rows if isinstance(answers[row.name], NoAnswerError)}
    answered = {row.name for row in rows if row.silent_since} - silent
    if silent or answered:
        coordination.run(lambda c: note_answers(c, archive, silent=silent, answered=answered))
    return answers


def _position(archive: str, row: ReplicaRow, places: Callable[[str], ObjectStore]) -> LogPlace:
    return open_replica(places(row.url).impatient(), archive, row.name)[1]


def check_line(coordination: CoordinationStore, archive: str, name: str, store: ObjectStore) -> None:
    """Check that a place has nothing unknown to the store; an unreadable one contradicts nothing."""
    try:
        _, place = open_replica(store, archive, name)
    except (HoldfastError, StoreError):
        return
    coordination.run(lambda c: check_others(c, archive, {store.url: place}, coordination.url))


def look_at(
    coordination: CoordinationStore, archive: str, rows: Sequence[ReplicaRow], places: Callable[[str], ObjectStore]
) -> dict[str, LogPlace | str]:
    """Return by name where each replica stands, or why it cannot be read; silent and lost ones too."""
    answers = _ask(coordination, archive, rows, lambda row: _position(archive, row, places))
    return {name: sentence(answer) if isinstance(answer, Exception) else answer for name, answer in answers.items()}


def silent_among(
    coordination: CoordinationStore,
    archive: str,
    rows: Sequence[ReplicaRow],
    places: Callable[[str], ObjectStore],
    *,
    at_once: bool = False,
) -> dict[str, SilentReplicaError]:
    """Return the errors of silent replicas; `at_once` asks those in their pause, too."""
    now = coordination.run(clock)
    paused = {row.name: silence_words(row, now) for row in rows if not at_once and is_paused(row, now)}
    asked = [row for row in rows if row.name not in paused]
    answers = _ask(coordination, archive, asked, lambda row: places(row.url).impatient().head(IDENTITY_KEY))
    late = {name: sentence(answer) for name, answer in answers.items() if isinstance(answer, NoAnswerError)}
    return {
        row.name: SilentReplicaError(f"replica {row.name} ({row.url}) does not answer: {words}")
        for row in rows
        if (words := {**paused, **late}.get(row.name))
    }


def archive_place(
    coordination: CoordinationStore, archive: str, row: ReplicaRow, places: Callable[[str], ObjectStore]
) -> ObjectStore:
    """Return a replica's store, once an archive was seen in it.

    A mount that has vanished leaves an empty folder: nothing is written there, not even a lock. A new replica need not
    have an archive yet.

    :raises SilentReplicaError, DamagedError: nothing answers; or there is no archive.
    """
    for error in silent_among(coordination, archive, [row], places, at_once=True).values():
        raise error
    place = places(row.url)
    if not row.is_new:
        _check_is_there(place, row.name)
    return place


def _check_is_there(place: ObjectStore, name: str) -> None:
    try:
        place.head(IDENTITY_KEY)
    except ObjectNotFound as error:
        raise DamagedError(
            f"there is no archive at {place.url}, where replica {name} is to be. Is the disk there, and the bucket? "
            f"If it is gone: 'holdfast replica remove {name}', then 'holdfast replica add' with an empty place"
        ) from error


def check_others(connection: Connection, archive: str, positions: Mapping[str, LogPlace], store: str) -> None:
    """Check in a transaction that the store has the entries executed by other replicas.

    :param positions: by URL, as answered before the transaction began: what was executed since was in the log before.
    """
    log = log_state(connection, archive)
    for url, place in positions.items():
        _check_line(line.contradiction(connection, log, place), log, url, store)


def open_replica(store: ObjectStore, archive: str, name: str) -> tuple[Archive, LogPlace]:
    """Open a replica's archive, also in recovery, and return its position in the log.

    :raises DamagedError: something else, or nothing, is there.
    """
    try:
        opened = Archive.open(store, recovering=True)
    except UsageError:
        _check_is_there(store, name)
        raise
    place = opened.state.log
    if opened.identity.id != archive or place is None or place.replica != name:
        raise DamagedError(f"{store.url} is not replica {name} of this archive: something else lies there")
    return opened, place
