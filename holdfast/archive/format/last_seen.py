"""Newest commit of each place that this machine has seen, so that one which was put back is noticed.

An older, whole state of an archive is as genuine as the newest: only a machine that has seen the newer one can tell.
What was seen is kept in a folder of this machine, a file for each place. Where that cannot be written, as on a machine
for one job, nothing is kept and nothing is refused: each process warns of it once.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import tempfile
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pydantic import AwareDatetime, Field, ValidationError

from holdfast.archive.format.document import Count, Document
from holdfast.common.errors import DamagedError
from locking.one_line import line_logger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.archive.format.model import ArchiveCommit, Identity, LogPlace
    from holdfast.archive.format.state import State
    from holdfast.storage import ObjectStore

log = line_logger(__name__)

VARIABLE: Final = "HOLDFAST_STATE"  # the environment variable with the folder; `off`: nothing is kept
_OFF: Final = "off"

REMEDY: Final = f"set {VARIABLE} to a folder that stays and can be written, or to {_OFF!r} where none is to be kept"

_warned: list[str] = []


class PutBackError(DamagedError):
    """An archive that is older than what this machine has seen of it, or another one."""


class LastSeen(Document):
    """State of an archive at one place, as it was last seen, each number with the id of what it numbers."""

    archive: str
    """Its id; `name`: for people; `created`: when it was made at this place. None: an earlier release kept this."""
    name: str
    created: AwareDatetime | None = None
    sequence: Count  # number of its newest commit; `commit`: the id of that
    commit: str
    log: str = ""  # id of the coordination store that it follows as a replica; "" for an archive at one place
    index: Count = 0  # of the last entry of that which it had executed; `entry`: the id of that, where it is known
    entry: str = ""
    accepted: dict[str, Count] = Field(default_factory=dict)
    """The states that it was known to take the place of, as in `State.superseded`."""
    replaces: dict[str, Count] = Field(default_factory=dict)
    """Newest commits of what was there before, by archive id, where this one was just created."""

    @classmethod
    def of(cls, identity: Identity, state: State) -> LastSeen:
        place = state.log
        index, entry = max((place.index, place.entry), (place.reached, place.reached_entry)) if place else (0, "")
        return cls(
            archive=identity.id,
            name=identity.name,
            created=identity.created,
            sequence=state.sequence,
            commit=state.tip or "",
            log=place.store if place else "",
            index=index,
            entry=entry,
            accepted=dict(state.superseded),
        )

    def __str__(self) -> str:
        return f"commit {self.sequence} of {self.name} ({self.archive})"


def state_folder() -> Path | None:
    """Return the folder of what this machine remembers; None where it is to remember nothing."""
    said = os.environ.get(VARIABLE, "")
    if said == _OFF:
        return None
    if said:
        return Path(said).expanduser()
    base = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    try:
        return Path(base).expanduser() / "holdfast"
    except RuntimeError:  # a user without a home, as some containers have
        return None


def why_not_kept() -> str:
    """Return why nothing can be remembered; "" where it can, or is not to be."""
    if os.environ.get(VARIABLE) == _OFF:
        return ""
    folder = state_folder()
    if folder is None:
        return "this user has no home folder"
    try:
        seen = folder / "seen"
        seen.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=seen):
            return ""
    except OSError as error:
        return f"{folder} cannot be written ({error.strerror})"


def place_of(store: ObjectStore) -> str:
    """Return what tells a place from others: its URL, and the server where the URL does not say it."""
    return f"{store.url} at {store.endpoint}" if store.endpoint else store.url


def read_seen(place: str) -> LastSeen | None:
    """Return what was last seen at a place; None where nothing is known."""
    path = _path(place)
    if path is None:
        return None
    try:
        return LastSeen.model_validate_json(path.read_bytes())
    except OSError:
        return None
    except ValidationError:
        log.warning("What was last seen of %s is damaged, and is not compared: %s", place, path)
        return None


def note_seen(place: str, now: LastSeen, *, instead_of: LastSeen | None = None) -> None:
    """Remember the newest commit seen at a place; `instead_of`: what a person has accepted to be gone."""

    def newest(before: LastSeen | None) -> LastSeen:
        return now if before in (None, instead_of) or _is_news(before, now) else before

    _keep(place, newest)


def begin_seen(place: str, identity: Identity, before: LastSeen | None) -> None:
    """Remember that an archive was just created, whose first commit takes the place of `before`."""
    replaces = {**before.replaces, before.archive: before.sequence} if before else {}
    begun = LastSeen(
        archive=identity.id, name=identity.name, created=identity.created, sequence=0, commit="", replaces=replaces
    )
    _keep(place, lambda _: begun)


def forget_seen(place: str) -> None:
    path = _path(place)
    if path is not None:
        with suppress(OSError):
            path.unlink()


def _is_news(before: LastSeen, now: LastSeen) -> bool:
    if (before.archive, before.log) != (now.archive, now.log):
        return True
    return (before.index, before.sequence) < (now.index, now.sequence)


def _keep(place: str, choose: Callable[[LastSeen | None], LastSeen]) -> None:
    path = _path(place)
    if path is None:
        _warn()
        return
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _locked(path):
            before = read_seen(place)
            if (now := choose(before)) != before:
                new = path.with_suffix(".new")
                new.write_bytes(now.to_bytes())
                new.replace(path)
    except OSError as error:
        log.debug("What was seen of %s could not be kept: %s", place, error)
        _warn()


def _warn() -> None:
    if not _warned and (why := why_not_kept()):
        _warned.append(why)
        log.warning("An archive that is put back to an older state would not be noticed, since %s: %s.", why, REMEDY)


def _path(place: str) -> Path | None:
    folder = state_folder()
    return folder / "seen" / f"{hashlib.sha256(place.encode()).hexdigest()[:32]}.json" if folder else None


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.with_suffix(".lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@dataclass(frozen=True)
class SeenNow:
    """An archive as it is seen now."""

    identity: Identity
    state: State
    commit: Callable[[int], ArchiveCommit]  # reads the commit of a number that counts

    def is_put_back(self, before: LastSeen) -> bool:
        """Return whether this is older than what was seen `before`, went another way, or is another archive."""
        return not self.is_after(before) and not self.takes_the_place_of(before)

    def is_after(self, before: LastSeen) -> bool:
        """Return whether the archive has become what it is from what was seen before."""
        if before.archive != self.identity.id:
            return False
        place = self.state.log
        return self._goes_on_from(before) or (place is not None and self._has_come_to(before, place))

    def takes_the_place_of(self, before: LastSeen) -> bool:
        """Return whether a person has accepted this in the place of what was seen, unknown then."""
        upto = self.state.superseded.get(before.archive, -1)
        return before.sequence <= upto and before.accepted.get(before.archive) != upto

    def _goes_on_from(self, before: LastSeen) -> bool:
        state = self.state
        if before.sequence >= state.sequence:
            return (before.sequence, before.commit) == (state.sequence, state.tip or "")
        if before.sequence in state.void:
            return False
        return not before.sequence or self.commit(before.sequence).id == before.commit

    def _has_come_to(self, before: LastSeen, place: LogPlace) -> bool:
        """Return whether a replica whose commits are others has executed the entry that was seen, or was made anew."""
        is_new_place = before.created is None or self.identity.created > before.created
        if not before.log:
            return before.created is not None and is_new_place
        if before.log != place.store and before.index > place.before.get(before.log, -1):
            return before.log in place.before and is_new_place  # the log that was made anew has given the entry up
        if before.index > max(place.index, place.reached):
            return False
        return self._entry_at(before.index) in ("", before.entry) or not before.entry

    def _entry_at(self, index: int) -> str:
        """Return the id of the entry that a commit of this place has executed; "" where a recovery has brought it."""
        for place in (self.commit(number).log for number in reversed(self.state.numbers())):
            if place is None:
                break
            if index in (place.index, place.reached):
                return place.entry if index == place.index else place.reached_entry
            if place.index < index:
                break
        return ""
