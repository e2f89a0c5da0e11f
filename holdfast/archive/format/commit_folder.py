"""Folder of commits: those that count, in their order, without those that a later one has voided.

A commit is known to count by the next one that can be read: that one follows it, or voids it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from holdfast.archive.format.commits import COMMITS, commit_key, empty_commit, missing_commit, number_of
from holdfast.archive.format.trust import in_belief
from holdfast.common.errors import DamagedError
from holdfast.common.side_by_side import do_side_by_side
from holdfast.storage.contract.strangers import without_strangers

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from holdfast.archive.format.model import ArchiveCommit, Identity
    from holdfast.storage import ObjectStore
    from holdfast.storage.contract.object_store import StoredDocument

_READERS = 8
_READ_AHEAD = 256  # commits that are read together


class TipVoidedError(DamagedError):
    """Commit that was read as one that counts, and that a later one has voided since."""


@dataclass(frozen=True)
class StoredNumber:
    """Content of a number: the object's body, or why it is missing or cannot be read."""

    number: int
    last: int  # of several numbers that are missing in a row, the last; else `number`
    body: StoredDocument | DamagedError


class _Step(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    sequence: int
    void: int | None = Field(default=None, ge=1)


class CommitFolder:
    """Folder of an archive's commits; `before_signing`: all of them are believed."""

    def __init__(self, store: ObjectStore, identity: Identity, *, before_signing: bool = False) -> None:
        self._store = store
        self._identity = identity
        self._before_signing = before_signing

    def new(self, here: int) -> Iterator[ArchiveCommit]:
        """Read the commits behind one that was read; it must still be there."""
        after = commit_key(here - 1) if here > 1 else ""
        listed = self._store.list(COMMITS, start_after=after).objects
        ours = without_strangers(self._store.url, COMMITS, listed, number_of)
        numbers = [number for number in (number_of(found.key) for found in ours) if number]
        if here and here not in numbers[:1]:
            raise missing_commit(here, commit_key(numbers[0]) if numbers else "")
        yield from self.read(numbers[1:] if here else numbers, here)

    def read(self, numbers: Sequence[int], since: int) -> Iterator[ArchiveCommit]:
        """Read the commits that count among numbers behind one that does.

        :raises DamagedError: one is missing, not what was written, or not to be believed; those before it were yielded.
        """
        bodies = counting(self._stored(numbers, since), since)
        for commit in in_belief(self._store, bodies, before_signing=self._before_signing):
            if commit.archive not in ("", self._identity.id):
                raise DamagedError(
                    f"{commit_key(commit.sequence)} is of another archive ({commit.archive}) than archive.json "
                    f"({self._identity.name}, {self._identity.id}): one of both was exchanged. Restore it from a copy "
                    "of the archive."
                )
            yield commit

    def _stored(self, numbers: Sequence[int], since: int) -> Iterator[StoredNumber]:
        expected = since + 1
        # A part at a time: nothing is read far behind what ends the reading.
        for begin in range(0, len(numbers), _READ_AHEAD):
            part = numbers[begin : begin + _READ_AHEAD]
            for number, body in zip(part, do_side_by_side(self._body, part, at_once=_READERS), strict=True):
                if number > expected:
                    yield StoredNumber(expected, number - 1, missing_commit(expected, commit_key(number)))
                yield StoredNumber(number, number, body)
                expected = number + 1

    def _body(self, number: int) -> StoredDocument | DamagedError:
        key = commit_key(number)
        try:
            stored = self._store.read(key)
            return stored if stored.body else empty_commit(key)
        except DamagedError as error:
            return error if self._store.bare.head(key).size else empty_commit(key)


def counting(stored: Iterable[StoredNumber], since: int) -> Iterator[tuple[str, StoredDocument]]:
    """Yield key and content of the commits that count, behind one that counted when it was read.

    :raises TipVoidedError: that one, or one that another follows, does not count any more.
    :raises DamagedError: one that counts cannot be read.
    """
    held: list[StoredNumber] = []
    for each in stored:
        step = _step(each)
        if step is not None and step.void is None and held:
            yield from map(_whole, _resolved(held, since))
            since, held = held[-1].last, []
        held.append(each)
    yield from map(_whole, _resolved(held, since))


def _resolved(held: Sequence[StoredNumber], since: int) -> list[StoredNumber]:
    """Return those that count among the last numbers, of which the newest one does.

    Each voids what it says only if it counts itself: so it goes from the newest one back.
    """
    found: list[StoredNumber] = []
    behind = held[-1].last if held else since
    for each in reversed(held):
        if each.number > behind:
            continue
        found.append(each)
        step = _step(each)
        behind = each.number - 1 if step is None or step.void is None else step.void - 1
    if behind < since:
        raise TipVoidedError(
            f"a commit up to {commit_key(held[-1].number)} voids commit {since}, which counts: one of both is not what "
            "was written. Restore the commits folder from a copy of the archive."
        )
    return found[::-1]


def _step(each: StoredNumber) -> _Step | None:
    if isinstance(each.body, DamagedError):
        return None
    try:
        return _Step.model_validate_json(each.body.body)
    except ValidationError:
        return None


def _whole(each: StoredNumber) -> tuple[str, StoredDocument]:
    if isinstance(each.body, DamagedError):
        raise each.body
    return commit_key(each.number), each.body
