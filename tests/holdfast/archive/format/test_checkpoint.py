"""Opening an archive from a checkpoint: the same as reading all commits, whatever becomes of the checkpoints."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import datetime

import pytest

from holdfast.archive import Archive, Change, State
from holdfast.archive import archive as archives
from holdfast.archive.archive import CHECKPOINT_EVERY
from holdfast.archive.format.block import Block, Coverage, JoinedBlock, Stream
from holdfast.archive.format.checkpoint import CHECKPOINTS, OURS, checkpoint_key
from holdfast.archive.format.commits import COMMITS, commit_key
from holdfast.archive.format.document import FileRecord, TableRecord
from holdfast.archive.format.model import Hold
from holdfast.archive.history import restore_points
from holdfast.common.errors import DamagedError, UsageError
from holdfast.storage import ObjectStore
from locking.store import StoreUnavailable
from tests.support.jobs.steps import SteppedStore, Steps

MakeBlock = Callable[..., Block]

FILE = FileRecord(
    path="data/shop_db/7/snapshot/x/0-1.parquet", size=100, sha256="a" * 64, rows=10, key_range=("1", "9")
)
TABLE = TableRecord(
    id="7", table_schema="public", name="orders", rows=10, digest="10:1", files=(FILE, FILE), columns=({"name": "id"},)
)


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint after every second commit."""
    monkeypatch.setattr(archives, "CHECKPOINT_EVERY", 2)


def commit(archive: Archive, change: Change) -> None:
    archive.add(lambda state: change, check=lambda: None, fence=None)


def from_commits(archive: Archive) -> State:
    return State.begun(archive.identity.format).after(archive.commits())


def checkpoints(store: ObjectStore) -> list[str]:
    return [found.key for found in store.list(CHECKPOINTS).objects]


def requests(store: ObjectStore) -> list[str]:
    """The requests that opening takes."""
    told: list[str] = []
    Archive.open(SteppedStore(store, Steps(0, "before", told.append)))
    return told


def test_an_archive_is_opened_by_its_newest_checkpoint_and_what_came_since(archive: Archive, block: MakeBlock) -> None:
    for number in range(CHECKPOINT_EVERY + 3):
        commit(archive, Change("backup", add=(block(identity=f"b{number}"),)))
    assert checkpoints(archive.store) == [checkpoint_key(CHECKPOINT_EVERY)]
    assert requests(archive.store) == [
        "get archive.json",
        f"list {OURS}",
        f"get {checkpoint_key(CHECKPOINT_EVERY)}",
        f"list {COMMITS}",
        *(f"get {commit_key(CHECKPOINT_EVERY + number)}" for number in (1, 2, 3)),
    ]
    assert Archive.open(archive.store).state == from_commits(archive)


def test_an_archive_of_format_1_has_none(store: ObjectStore, block: MakeBlock, often: None) -> None:
    archive = Archive.create(store, name="shop", number=1)
    for number in range(5):
        commit(archive, Change("backup", add=(block(identity=f"b{number}"),)))
    assert (checkpoints(store), Archive.open(store).state) == ([], from_commits(archive))


def test_few_are_kept_and_the_newest_sorts_first(archive: Archive, block: MakeBlock, often: None) -> None:
    for number in range(12):
        commit(archive, Change("backup", add=(block(identity=f"b{number}"),)))
    assert checkpoints(archive.store) == [checkpoint_key(number) for number in (12, 10, 8)]


class Story:
    """Random changes of an archive, each valid."""

    def __init__(self, seed: int, noon: datetime, block: MakeBlock) -> None:
        self._random = random.Random(seed)
        self._noon = noon
        self._block = block
        self._count = 0

    def change(self, state: State) -> Change:
        self._count += 1
        kinds = [self.backup, self.backup, self.remove, self.join, self.vacuum, self.hold, self.abandon]
        return self._random.choice(kinds)(state) or self.backup(state)

    def backup(self, state: State) -> Change:
        del state
        stream = Stream(
            slot="s",
            position="0/1",
            opened=True,
            publication="s",
            publication_oid=1,
            followed={7: self._random.choice([70, 71])},
            not_followed={"public.x": "no key"} if self._random.random() < 0.3 else {},
        )
        made = self._block(identity=f"b{self._count}", source=self._random.choice(["shop_db", "crm"]), tables=(TABLE,))
        more = {"stream": stream} if self._random.random() < 0.7 else {}
        return Change("backup", add=(made.model_copy(update=more),))

    def remove(self, state: State) -> Change | None:
        some = [key for key in state.blocks if self._random.random() < 0.3]
        return Change("truncation", remove=tuple(some)) if some else None

    def join(self, state: State) -> Change | None:
        joined = list(state.blocks.values())[:2]
        if len(joined) < 2 or len({placed.source for placed in joined}) > 1:
            return None
        parts = tuple(
            JoinedBlock(commit=each.commit, block=each.block.model_copy(update={"tables": ()})) for each in joined
        )
        block = joined[-1].block.model_copy(
            update={
                "id": f"j{self._count}",
                "kind": "changes",
                "parts": parts,
                "covers": Coverage(from_position="0/1", to_position="0/2", from_time=self._noon, to_time=self._noon),
            }
        )
        return Change("compaction", add=(block,), remove=tuple(placed.id for placed in joined))

    def vacuum(self, state: State) -> Change | None:
        return Change("vacuum", vacuumed=tuple(state.removed)[:2]) if state.removed else None

    def hold(self, state: State) -> Change:
        hold = Hold(
            id=f"h{self._count}",
            source="shop_db",
            position="0/FFFF",
            at=self._noon,
            owner="jane",
            reason="trial",
            created=self._noon,
        )
        return Change("hold", holds=(hold,), released=tuple(state.holds)[:1])

    def abandon(self, state: State) -> Change:
        del state
        return Change("vacuum", abandoned=(f"a{self._count}",))


@pytest.mark.slow
@pytest.mark.parametrize(
    "seed", [pytest.param(each, marks=[pytest.mark.exhaustive] if each >= 4 else []) for each in range(12)]
)
def test_what_a_checkpoint_tells_is_what_the_commits_tell(
    archive: Archive, block: MakeBlock, noon: datetime, often: None, seed: int
) -> None:
    story = Story(seed, noon, block)
    for _ in range(21):
        commit(archive, story.change(archive.state))
        opened = Archive.open(archive.store)
        assert opened.state == from_commits(archive)
        assert restore_points.describe(opened.state) == restore_points.describe(from_commits(archive))


def test_a_commit_that_a_block_is_read_from_and_that_is_gone_is_named(
    archive: Archive, block: MakeBlock, often: None
) -> None:
    for number in range(2):
        commit(archive, Change("backup", add=(block(identity=f"b{number}"),)))
    state = Archive.open(archive.store).state
    archive.store.put(commit_key(1), archive.store.get(commit_key(2)))
    with pytest.raises(DamagedError, match="exchanged"):
        assert state.blocks["b0"].block
    archive.store.delete(commit_key(1))
    with pytest.raises(DamagedError, match="commit 1 is missing"):
        assert state.blocks["b0"].block


def test_a_newest_commit_that_is_gone_is_missed_although_the_checkpoint_knows_what_it_told(
    archive: Archive, block: MakeBlock, often: None
) -> None:
    for number in range(2):
        commit(archive, Change("backup", add=(block(identity=f"b{number}"),)))
    archive.store.delete(commit_key(2))
    with pytest.raises(DamagedError, match="commit 2 is missing"):
        Archive.open(archive.store)


def test_a_checkpoint_that_cannot_be_written_fails_no_commit(
    archive: Archive, block: MakeBlock, often: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = type(archive.store).create

    def refuse(store: ObjectStore, key: str, body: bytes) -> None:
        if key.startswith(CHECKPOINTS):
            raise StoreUnavailable("no answer")
        create(store, key, body)

    monkeypatch.setattr(type(archive.store), "create", refuse)
    for number in range(3):
        commit(archive, Change("backup", add=(block(identity=f"b{number}"),)))
    assert (checkpoints(archive.store), Archive.open(archive.store).state) == ([], from_commits(archive))


@pytest.mark.slow
@pytest.mark.parametrize("every", [31, pytest.param(3, marks=pytest.mark.exhaustive)])
def test_of_a_damaged_checkpoint_nothing_is_believed(
    archive: Archive, block: MakeBlock, often: None, every: int
) -> None:
    for number in range(4):
        commit(archive, Change("backup", add=(block(identity=f"b{number}", tables=(TABLE,)),)))
    truth = from_commits(archive)
    body = archive.store.get(checkpoint_key(4))
    draw = random.Random(7)
    damaged = [body[:-1], body[: len(body) // 2], b"", body + b"x"]
    for at in range(0, len(body), every):
        damaged.append(body[:at] + bytes([body[at] ^ 1 << draw.randrange(8)]) + body[at + 1 :])
    for each in damaged:
        archive.store.put(checkpoint_key(4), each)
        assert Archive.open(archive.store).state == truth


def test_where_all_are_damaged_the_commits_tell(archive: Archive, block: MakeBlock, often: None) -> None:
    for number in range(4):
        commit(archive, Change("backup", add=(block(identity=f"b{number}"),)))
    for key in checkpoints(archive.store):
        archive.store.put(key, b"PAR1")
    assert Archive.open(archive.store).state == from_commits(archive)


def test_a_checkpoint_that_needs_a_newer_reader_says_which(
    archive: Archive, block: MakeBlock, often: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(2):
        commit(archive, Change("backup", add=(block(identity=f"b{number}"),)))
    monkeypatch.setattr("holdfast.archive.format.state.READS", 1)
    with pytest.raises(UsageError, match="needs a reader of format 2"):
        Archive.open(archive.store)
