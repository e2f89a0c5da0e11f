"""Consistency check between the coordination store and the replicas.

A store that was brought back from an older copy would give the same index to another entry, and replicas that have
executed the first one would never be equal to those that execute the second. So before anything relies on the store,
all replicas that can be read are asked how far they are: those that the store knows, and those that a configuration
names. They are asked side by side, and one that hangs is waited for no longer than all of them together may take.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

from holdfast.archive.archive import IDENTITY_KEY, Archive
from holdfast.common.errors import DamagedError, HoldfastError, UsageError, sentence
from holdfast.common.side_by_side import NoAnswerError, ask_each
from holdfast.replication.log import line
from holdfast.replication.log.errors import OldStoreError, SilentReplicaError
from holdfast.replication.log.named_places import NamedPlaces
from holdfast.replication.log.replicas import log_state, replica, replicas
from holdfast.replication.log.silence import NotAsked, is_paused, note_answers, silence_words
from holdfast.replication.log.store import clock
from locking.one_line import line_logger
from locking.store import ObjectNotFound, StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

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

    :param places: where they stand in the log, by URL.
    :param not_asked: those that could not be asked.
    :param unread: names of those that could not be read, new ones too.
    """

    places: Mapping[str, LogPlace]
    not_asked: tuple[NotAsked, ...] = ()
    unread: frozenset[str] = frozenset()


@dataclass(frozen=True)
class KnownReplica:
    """State of the log and of one replica in the coordination store.

    :param contradiction: how the replica contradicts the log, in words; "": it does not.
    """

    log: LogState
    row: ReplicaRow
    contradiction: str


def look_up(connection: Connection, archive: str, place: LogPlace) -> KnownReplica:
    """Return the state of the log and of a replica.

    :param archive: its id.
    :param place: where the replica says that it stands.
    """
    log = log_state(connection, archive)
    row = replica(connection, archive, place.replica)
    return KnownReplica(log, row, line.contradiction(connection, log, place))


def check_replica(record: KnownReplica, url: str, place: LogPlace, store: str) -> None:
    """Check a replica against the coordination store.

    The replica must follow this log, be at the URL that the store has for it, and have executed the log's own entries.

    :param url: where the archive was found.
    :param place: where it says that it stands.
    :param store: the coordination store's address, for people.
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


def ask_others(
    coordination: CoordinationStore,
    archive: str,
    name: str,
    places: Callable[[str], ObjectStore],
) -> Answers:
    """Return the positions of the other replicas in the log, also of those that are lost or being recovered.

    Those that cannot be read are named. One that does not answer in time is known to be silent from then on, and is
    asked again after a pause. So are places that a configuration names, and the coordination store does not know.

    :param archive: its id.
    :param name: of the replica that asks; "": all are asked.
    :param places: opens a replica by its URL.
    """
    rows, now = coordination.run(lambda c: (replicas(c, archive), clock(c)))
    others = [row for row in rows if row.name != name]
    asked = [row for row in others if not is_paused(row, now)]
    named = NamedPlaces.beside({row.url for row in rows}, coordination.named, places)

    def question(row: ReplicaRow) -> LogPlace | None:
        return _position(archive, row, places)

    answers = _ask(coordination, archive, asked, question, named.questions(archive))
    positions, more_not_asked = named.positions(answers)
    not_asked = {row.name: silence_words(row, now) for row in others if is_paused(row, now)}
    for row in asked:
        answer = answers[row.name]
        if isinstance(answer, (HoldfastError, StoreError)):
            if row.pointer:  # else it never had anything
                not_asked[row.name] = sentence(answer)
        elif isinstance(answer, Exception):
            raise answer
        elif answer is not None:
            positions[row.url] = answer
    unasked = tuple(NotAsked(row.name, row.url, not_asked[row.name]) for row in others if row.name in not_asked)
    unread = frozenset(row.name for row in others if row.url not in positions)
    return Answers(positions, unasked + more_not_asked, unread)


def run_agreed(
    coordination: CoordinationStore,
    archive: str,
    work: Callable[[Connection, Answers], T],
    places: Callable[[str], ObjectStore],
    *,
    but_for: str = "",
) -> T:
    """Run a transaction where no replica that can be read contradicts the coordination store.

    All replicas are asked before it begins; those that could not be are named in the log.

    :param archive: its id.
    :param but_for: the name of a replica that is not asked, since it was looked at already.
    :param work: is called with the connection and what the replicas have answered.
    :param places: opens a replica by its URL.
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
    """Ask replicas side by side, and record which of them are silent.

    :param beside: other questions, by names that no replica has, which are answered under the same time limit.
    """
    questions: dict[str, Callable[[], T]] = {row.name: partial(question, row) for row in rows}
    answers = ask_each({**questions, **beside}, limit_s=LIMIT_S)
    silent = {row.name for row in rows if isinstance(answers[row.name], NoAnswerError)}
    answered = {row.name for row in rows if row.silent_since} - silent
    if silent or answered:
        coordination.run(lambda c: note_answers(c, archive, silent=silent, answered=answered))
    return answers


def _position(archive: str, row: ReplicaRow, places: Callable[[str], ObjectStore]) -> LogPlace:
    """Return a replica's own position in the log, read by short requests."""
    return open_replica(places(row.url).impatient(), archive, row.name)[1]


def check_line(coordination: CoordinationStore, archive: str, name: str, store: ObjectStore) -> None:
    """Check that a place has nothing that the coordination store does not know, before a replica is recovered there.

    A place that cannot be read contradicts nothing.

    :param archive: its id.
    :param name: of the replica; `store`: of the place.
    :raises OldStoreError: it has executed an entry that the store does not have.
    """
    try:
        _, place = open_replica(store, archive, name)
    except (HoldfastError, StoreError):
        return
    coordination.run(lambda c: check_others(c, archive, {store.url: place}, coordination.url))


def look_at(
    coordination: CoordinationStore, archive: str, rows: Sequence[ReplicaRow], places: Callable[[str], ObjectStore]
) -> dict[str, LogPlace | str]:
    """Return by name where each replica says that it stands, or in words why it cannot be read.

    Silent ones are asked, too, and so are lost ones.

    :param archive: its id.
    :param places: opens a replica by its URL.
    """
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
    """Return the errors of those replicas that do not answer, by name.

    :param archive: its id.
    :param places: opens a replica by its URL.
    :param at_once: also ask those that were silent a short while ago; else they count as silent.
    """
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
    """Return a replica's store, once an archive was found in it.

    Nothing is written where there is none, not even a lock: a mount that has vanished leaves an empty folder. Only one
    that is new need not have an archive yet.

    :param archive: its id.
    :param places: opens a replica by its URL.
    :raises SilentReplicaError: nothing answers there in time.
    :raises DamagedError: there is no archive.
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
    """Check that the store has the entries executed by other replicas.

    :param positions: by URL, as `ask_others` returned them before this transaction began: what the replicas have
        executed since was in the log before.
    :param store: the coordination store's address, for people.
    :raises OldStoreError: it does not.
    """
    log = log_state(connection, archive)
    for url, place in positions.items():
        _check_line(line.contradiction(connection, log, place), log, url, store)


def open_replica(store: ObjectStore, archive: str, name: str) -> tuple[Archive, LogPlace]:
    """Open the archive of a replica, and return its position in the log.

    A replica that is being recovered is opened, too.

    :param archive: its id.
    :raises DamagedError: no archive is in the store, or something else.
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
