"""Which commits are believed, in order and alone, by who asks for signatures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.archive import Archive, Change
from holdfast.archive.format.block import Block
from holdfast.archive.format.commits import commit_key, parse_commit
from holdfast.archive.format.runs import RunLog, read_unfinished
from holdfast.archive.format.trust import CommitReader
from holdfast.archive.maintenance.vouching import vouch
from holdfast.common.errors import DamagedError, UsageError
from holdfast.common.signing import Signing
from holdfast.storage import open_store, open_url
from tests.support.signers import new_signer, signing

MakeBlock = Callable[..., Block]


def nothing() -> None:
    pass


def add(archive: Archive, *blocks: Block) -> int:
    return archive.add(lambda _: Change(kind="backup", add=blocks), check=nothing, fence="t").sequence


class Place:
    """An archive in a folder, as several see it."""

    def __init__(self, folder: Path, block: MakeBlock) -> None:
        self.url = str(folder / "archive")
        self.block = block
        self.ends = 0

    def open(self, who: Signing, **more: bool) -> Archive:
        return Archive.open(open_store(self.url, None, who), **more)

    def create(self, who: Signing) -> Archive:
        return Archive.create(open_store(self.url, None, who), name="shop")

    def backup(self, who: Signing) -> int:
        self.ends += 0x100
        return add(self.open(who), self.block(position=f"0/{self.ends:X}"))

    def forge(self, number: int) -> None:
        """Change a commit, as somebody can who may write to the store and knows the format."""
        store = open_store(self.url)
        key = commit_key(number)
        forged = parse_commit(key, store.get(key)).model_copy(update={"reason": "forged"})
        store.delete(key)
        store.create(key, forged.to_bytes())


NOBODY = Signing()


@pytest.fixture
def place(tmp_path: Path, block: MakeBlock) -> Place:
    return Place(tmp_path, block)


@pytest.fixture
def us(tmp_path: Path) -> Signing:
    return signing(tmp_path / "ours")


def test_an_archive_that_is_created_with_a_key_is_signed_from_its_first_commit(place: Place, us: Signing) -> None:
    place.create(us)
    assert [place.backup(us) for _ in range(3)] == [1, 2, 3]
    state = place.open(us).state
    assert (state.sequence, state.vouched_by, state.min_writer) == (3, 1, 6)
    assert place.open(NOBODY).state == state  # who asks for no signature reads it as any other


def test_nobody_adds_to_a_signed_archive_without_a_key(place: Place, us: Signing) -> None:
    place.create(us)
    place.backup(us)
    with pytest.raises(UsageError, match="is signed: say where the key that signs is"):
        place.backup(NOBODY)
    with pytest.raises(UsageError, match="is signed: say where the key that signs is"):
        place.open(NOBODY).check_may_add()
    assert place.open(us).state.sequence == 1


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_forged_commit_is_not_believed_and_what_was_before_it_is(place: Place, us: Signing, number: int) -> None:
    place.create(us)
    for _ in range(3):
        place.backup(us)
    place.forge(number)
    with pytest.raises(DamagedError, match=f"{commit_key(number)} is not signed, and nothing signed vouches for it"):
        place.open(us)
    before = place.open(us, before_damage=True).state
    assert before.sequence == number - 1
    assert "it may be forged" in before.cut_off
    with pytest.raises(DamagedError, match="is not signed"):
        CommitReader(open_store(place.url, None, us), 1).read(number)


def test_a_commit_by_another_key_is_not_believed(place: Place, us: Signing, tmp_path: Path) -> None:
    place.create(us)
    place.backup(us)
    theirs = signing(tmp_path / "theirs")
    stranger = Signing(theirs.key, tuple(new_signer(tmp_path / "ours")[1:]))
    assert stranger  # whatever he believes himself, what he signs counts nowhere else
    forged = add(_as_anybody(place, theirs), place.block(position="0/900"))
    with pytest.raises(DamagedError, match=f"{commit_key(forged)} says to be signed by .* not known here"):
        place.open(us)


def _as_anybody(place: Place, theirs: Signing) -> Archive:
    archive = place.open(NOBODY)
    archive.store.signing = theirs
    archive._before_signing = True
    return archive


def test_a_signed_commit_of_another_archive_is_named(place: Place, us: Signing, tmp_path: Path) -> None:
    place.create(us)
    place.backup(us)
    other = Place(tmp_path / "other", place.block)
    other.create(us)
    other.backup(us)
    body = open_url(other.url).get(commit_key(1))
    open_url(place.url).delete(commit_key(1))
    open_url(place.url).create(commit_key(1), body)
    with pytest.raises(DamagedError, match=f"{commit_key(1)} says to be signed by .* which is not so"):
        place.open(us)


def test_an_archive_that_was_not_signed_is_believed_once_somebody_vouches_for_it(place: Place, us: Signing) -> None:
    place.create(NOBODY)
    for _ in range(3):
        place.backup(NOBODY)
    with pytest.raises(DamagedError, match="is not signed"):
        place.open(us)
    with pytest.raises(UsageError, match="'holdfast signing start' vouches for them first"):
        _believing_all(place, us).check_may_add()
    assert vouch(open_store(place.url, None, us), check=nothing, fence="t").sequence == 4
    assert place.backup(us) == 5
    archive = place.open(us)
    assert (archive.state.sequence, archive.state.vouched_by) == (5, 4)
    assert [archive.commit(number).sequence for number in range(1, 6)] == [1, 2, 3, 4, 5]
    place.forge(2)
    with pytest.raises(DamagedError, match=f"{commit_key(1)} is not signed"):
        place.open(us)
    with pytest.raises(DamagedError, match=f"{commit_key(2)} is not signed"):
        archive.commit(2)
    assert archive.commit(3).sequence == 3


def _believing_all(place: Place, us: Signing) -> Archive:
    return Archive.open(open_store(place.url, None, us), before_signing=True)


def test_to_vouch_needs_a_key(place: Place) -> None:
    place.create(NOBODY)
    place.backup(NOBODY)
    with pytest.raises(UsageError, match="say where the key that signs is"):
        vouch(open_store(place.url), check=nothing, fence="t")


def test_a_new_signer_vouches_for_what_the_old_one_has_signed(place: Place, us: Signing, tmp_path: Path) -> None:
    place.create(us)
    place.backup(us)
    new = new_signer(tmp_path / "new")
    both = Signing(new[0], (new[1], new_signer_of(us)))
    place.backup(both)  # by the new key, while both are believed
    vouch(open_store(place.url, None, both), check=nothing, fence="t")
    only_new = Signing(new[0])
    assert place.open(only_new).state.sequence == 3
    assert place.backup(only_new) == 4
    with pytest.raises(DamagedError, match=f"{commit_key(2)} says to be signed by"):
        place.open(us)


def new_signer_of(who: Signing) -> str:
    from holdfast.storage.encryption.signing_key import find_signing_key

    return str(find_signing_key(str(who.key)).public)


def test_no_vouching_counts_that_is_not_signed(place: Place, us: Signing, tmp_path: Path) -> None:
    place.create(NOBODY)
    place.backup(NOBODY)
    vouch(open_store(place.url, None, signing(tmp_path / "theirs")), check=nothing, fence="t")
    with pytest.raises(DamagedError, match=f"{commit_key(1)} is not signed"):
        place.open(us)
    with pytest.raises(DamagedError, match="says to be signed by"):
        CommitReader(open_store(place.url, None, us), 2).read(1)


def test_a_run_goes_on_only_from_records_that_are_signed(place: Place, us: Signing) -> None:
    from holdfast.archive.format.document import FileRecord
    from holdfast.archive.format.resume import BegunBlock

    place.create(us)
    file = FileRecord(path="data/shop/c", size=1, sha256="0" * 64)
    for number, who in enumerate((us, NOBODY)):
        log = RunLog(open_store(place.url, None, who), "run", "backup")
        log.begin(BegunBlock(id=f"b{number}", snapshot="s", started_from=None, catalog=file, schema_dump=file))
        log.progress(f"step {number}")
    trusting = read_unfinished(open_store(place.url, None, NOBODY), "run")
    wary = read_unfinished(open_store(place.url, None, us), "run")
    assert (trusting and trusting.block.id, wary and wary.block.id) == ("b1", "b0")
    assert read_unfinished(open_store(place.url, None, replace(us, signers=())), "other") is None
