"""Opening an archive to read it, in one of two consistencies.

*Eventual*: what the replica has that is read, be it old, or be it taken back later. *Sequential*: every backup whose
quorum has succeeded, so all that an earlier sequential read has shown, and nothing that waits for its quorum.

Most archives are at one place: what talks to a coordination store is imported only where it is asked.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast, get_args

from holdfast.archive.archive import Archive
from holdfast.archive.format.document import iso
from holdfast.archive.format.last_seen import PutBackError, forget_seen, place_of, read_seen, state_folder
from holdfast.archive.history.visibility import without
from holdfast.common.errors import BusyError, DamagedError, HoldfastError, RefusedError, UsageError, sentence
from holdfast.common.side_by_side import NoAnswerError, ask_side_by_side
from holdfast.config.archives_model import Consistency
from holdfast.replication.log.errors import OldStoreError
from locking.one_line import line_logger
from locking.store import StoreError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from holdfast.archive.format.model import LogPlace
    from holdfast.archive.format.state import State
    from holdfast.replication.log.settings import AnyAddress
    from holdfast.replication.log.silence import NotAsked
    from holdfast.replication.log.store import CoordinationStore
    from holdfast.storage import ObjectStore


logger = line_logger(__name__)


def parse_consistency(text: str) -> Consistency:
    """Return the consistency that a word names, or raise UsageError."""
    if text not in (choices := get_args(Consistency)):
        raise UsageError(f"a consistency is {' or '.join(choices)}, not {text!r}")
    return cast("Consistency", text)


@dataclass(frozen=True)
class Opened:
    """One commit of an archive, as it is read.

    :param behind: entries of the update log that it lacks; None: the store was not asked, or there is no log.
    :param not_asked: of a sequential read, replicas that could not be asked how far they are.
    """

    store: ObjectStore
    archive: str
    state: State
    consistency: Consistency
    behind: int | None = None
    not_asked: tuple[NotAsked, ...] = ()

    def describe(self) -> dict[str, Any]:
        """Return the replica that is read and its freshness, as a dict for JSON."""
        log, at = self.state.log, self.state.at
        return {
            "url": self.store.url,
            "consistency": self.consistency,
            "replica": log.replica if log else None,
            "index": log.index if log else None,
            "entries_behind": self.behind,
            "commit": self.state.sequence,
            "committed_at": iso(at) if at else None,
            "cut_off": self.state.cut_off or None,
            "not_asked": [replica.describe() for replica in self.not_asked],
        }


def words_of(read_from: Mapping[str, Any]) -> str:
    """Return `Opened.describe` in words; "" for an archive at one place that is whole."""
    if read_from.get("cut_off"):
        upto = f"commit {read_from['commit']} of {read_from['committed_at']}"
        return f"{read_from['cut_off']} What is read was committed before that, up to {upto}"
    if read_from["replica"] is None:
        return ""
    behind = read_from["entries_behind"]
    fresh = (
        f"commit {read_from['commit']} of {read_from['committed_at']}; how far the log is was not asked"
        if behind is None
        else f"{behind} entries behind the log"
    )
    asked = "".join(
        f"; {replica['replica']} was not asked: {replica['why']}" for replica in read_from.get("not_asked", ())
    )
    return f"read from replica {read_from['replica']} at entry {read_from['index']}, {fresh}{asked}"


def open_to_read(store: ObjectStore, consistency: Consistency = "eventual", *, address: AnyAddress = None) -> Opened:
    """Open an archive to read one commit of it; for a sequential read, the coordination store is asked afterwards.

    A machine that has not seen the replica before asks it for an eventual one, too, where it answers: is this an older
    copy of itself? Before damage, an eventual read goes on; `cut_off` of the state says so.

    :raises DamagedError: nothing here can be read.
    :raises BusyError, LostReplicaError, UsageError, HoldfastError: a sequential read: the replica is not far enough; is
        lost; or its store is not known, or cannot be reached.
    """
    is_unseen = state_folder() is not None and read_seen(place_of(store)) is None
    archive = Archive.open(store, before_damage=consistency == "eventual")
    if archive.state.cut_off and not archive.state.blocks:
        raise DamagedError(archive.state.cut_off)
    if consistency == "eventual" and archive.state.log is not None and is_unseen:
        _check_is_no_older_copy(archive, archive.state.log, address)
    if consistency == "eventual" or archive.state.log is None:
        return Opened(store, archive.identity.id, archive.state, consistency)
    from holdfast.replication.log.store import opened

    with opened(address) as coordination:
        return _shown(archive, coordination)


def _check_is_no_older_copy(archive: Archive, place: LogPlace, address: AnyAddress) -> None:
    """Check that a replica is as far as the coordination store knows it was, where that answers."""
    from holdfast.replication.log.consistency_check import look_up
    from holdfast.replication.log.store import opened

    try:
        with opened(address) as coordination:
            record = coordination.run(lambda c: look_up(c, archive.identity.id, place))
    except HoldfastError as error:
        logger.info("Whether %s is an older copy of itself was not asked: %s", archive.store.url, error)
        return
    archive.refresh()  # a sync may have gone on since it was opened, and before the store was asked
    place = archive.state.log or place
    if record.log.store == place.store and max(place.index, place.reached) < record.row.pointer - 1:
        forget_seen(place_of(archive.store))
        raise PutBackError(
            f"{archive.store.url} ends at entry {place.index}, and had executed {record.row.pointer - 1}: it is an "
            f"older copy of itself. 'holdfast replica recover {place.replica}' makes it anew; read another meanwhile"
        )


def open_first(
    stores: Sequence[ObjectStore], consistency: Consistency = "eventual", *, address: AnyAddress = None
) -> Opened:
    """Open the first replica that can be read in a consistency; an eventual read is of the first.

    For a sequential read all are opened side by side: one that hangs does not keep the others from being read.

    :raises BusyError: none of several can serve a sequential read; says why of each.
    """
    if consistency == "eventual" or len(stores) == 1:
        return open_to_read(stores[0], consistency, address=address)
    from holdfast.replication.log.consistency_check import LIMIT_S
    from holdfast.replication.log.store import opened

    refused = []
    with opened(address) as coordination:
        archives = ask_side_by_side({store.url: partial(Archive.open, store) for store in stores}, limit_s=LIMIT_S)
        for store in stores:
            try:
                archive = archives[store.url]
                if isinstance(archive, NoAnswerError):
                    raise BusyError(f"{store.url} does not answer: {archive}")
                if isinstance(archive, Exception):
                    raise archive
                return _shown(archive, coordination)
            except OldStoreError:
                raise
            except (BusyError, RefusedError, DamagedError, UsageError, StoreError) as error:
                refused.append(sentence(error))
    raise BusyError(f"no replica can be read sequentially now: {'; '.join(refused)}")


def _shown(archive: Archive, coordination: CoordinationStore) -> Opened:
    from holdfast.replication.log import sequential
    from holdfast.storage import opener_like

    store, state = archive.store, archive.state
    opened = Opened(store, archive.identity.id, state, "sequential")
    if state.log is None:
        return opened
    places = opener_like(store)
    answer = sequential.ask(coordination, opened.archive, store.url, state.log, places)
    return replace(opened, state=without(state, answer.hidden), behind=answer.behind, not_asked=answer.not_asked)
