"""What a machine remembers of archives, and how it notices that one was put back."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.archive import Archive, Change
from holdfast.archive.format import last_seen
from holdfast.archive.format.block import Block
from holdfast.archive.format.last_seen import (
    VARIABLE,
    LastSeen,
    PutBackError,
    note_seen,
    place_of,
    read_seen,
    state_folder,
    why_not_kept,
)
from holdfast.storage import open_store

MakeBlock = Callable[..., Block]


def nothing() -> None:
    pass


@pytest.fixture(autouse=True)
def remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of what this machine remembers."""
    monkeypatch.setenv(VARIABLE, str(tmp_path / "state"))
    return tmp_path / "state"


class Place:
    """An archive in a folder that somebody puts back."""

    def __init__(self, folder: Path, block: MakeBlock) -> None:
        self.folder = folder / "archive"
        self._block = block
        self._end = 0

    def create(self, name: str = "shop") -> Archive:
        return Archive.create(open_store(str(self.folder)), name=name)

    def open(self) -> Archive:
        return Archive.open(open_store(str(self.folder)))

    def backup(self) -> int:
        self._end += 0x100
        block = self._block(position=f"0/{self._end:X}")
        return self.open().add(lambda _: Change(kind="backup", add=(block,)), check=nothing, fence="t").sequence

    def copy(self, name: str) -> Path:
        return Path(shutil.copytree(self.folder, self.folder.with_name(name)))

    def put_back(self, copy: Path) -> None:
        shutil.rmtree(self.folder)
        shutil.copytree(copy, self.folder)


@pytest.fixture
def place(tmp_path: Path, block: MakeBlock) -> Place:
    made = Place(tmp_path, block)
    made.create()
    return made


def test_an_older_state_is_refused_until_it_is_accepted(place: Place) -> None:
    place.backup()
    older = place.copy("older")
    place.backup()
    place.put_back(older)
    with pytest.raises(PutBackError, match=r"had commit 2 of shop .* when this machine last saw it, and has commit 1"):
        place.open()
    archive = Archive.open(open_store(str(place.folder)), unseen=True)
    seen = read_seen(archive.store.url)
    assert seen is not None
    assert archive.seen_now.is_put_back(seen)
    accepted = Change(kind="accepted", reason="a test", supersedes={seen.archive: seen.sequence})
    archive.add(lambda _: accepted, check=nothing, fence="t")
    assert place.open().state.superseded == {seen.archive: 2}
    assert place.backup() == 3


def test_who_has_accepted_an_older_state_notices_when_that_is_put_back(place: Place) -> None:
    place.backup()
    older = place.copy("older")
    for _ in range(3):
        place.backup()
    place.put_back(older)
    archive = Archive.open(open_store(str(place.folder)), unseen=True)
    seen = read_seen(archive.store.url)
    assert seen is not None
    archive.add(lambda _: Change(kind="accepted", supersedes={seen.archive: 4}), check=nothing, fence="t")
    assert place.open().state.sequence == 2
    accepted = place.copy("accepted")
    assert place.backup() == 3
    place.put_back(accepted)
    with pytest.raises(PutBackError, match=r"had commit 3 of shop .* and has commit 2 of shop"):
        place.open()


def test_others_who_have_seen_no_more_accept_it_with_that_and_those_who_have_do_not(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.backup()
    older = place.copy("older")
    place.backup()
    one, two = tmp_path / "one", tmp_path / "two"
    shutil.copytree(tmp_path / "state", one)
    place.backup()
    shutil.copytree(tmp_path / "state", two)
    place.put_back(older)
    monkeypatch.setenv(VARIABLE, str(one))
    archive = Archive.open(open_store(str(place.folder)), unseen=True)
    archive.add(lambda _: Change(kind="accepted", supersedes={archive.identity.id: 2}), check=nothing, fence="t")
    assert place.open().state.sequence == 2
    monkeypatch.setenv(VARIABLE, str(two))
    with pytest.raises(PutBackError, match=r"had commit 3 of shop .* and has commit 2 of shop"):
        place.open()


def test_a_line_that_went_another_way_is_refused_though_it_is_longer(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.backup()
    older = place.copy("older")
    place.backup()
    place.put_back(older)
    monkeypatch.setenv(VARIABLE, "off")  # a machine that has not seen it
    assert [place.backup() for _ in range(3)] == [2, 3, 4]
    monkeypatch.undo()
    monkeypatch.setenv(VARIABLE, str(place.folder.with_name("state")))
    with pytest.raises(PutBackError, match="had commit 2 of shop"):
        place.open()


def test_another_archive_in_its_place_is_refused(place: Place, tmp_path: Path, block: MakeBlock) -> None:
    place.backup()
    other = Place(tmp_path / "elsewhere", block)
    other.create("crm")
    other.backup()
    place.put_back(other.folder)
    with pytest.raises(PutBackError, match=r"had commit 1 of shop .* and has commit 1 of crm"):
        place.open()


def test_an_archive_that_is_created_where_one_was_says_that_it_takes_its_place(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    place.backup()
    shutil.copytree(tmp_path / "state", tmp_path / "other machine")
    first = place.open().identity.id
    shutil.rmtree(place.folder)
    place.create()
    assert "This machine has seen commit 1 of shop" in caplog.text
    assert place.backup() == 1
    assert place.open().state.superseded == {first: 1}
    monkeypatch.setenv(VARIABLE, str(tmp_path / "other machine"))
    assert place.open().state.sequence == 1


def test_whoever_reads_while_another_adds_is_not_refused(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.backup()
    refresh, beside = Archive.refresh, iter([place.backup])

    def adding(archive: Archive) -> None:
        refresh(archive)
        for add in beside:
            add()

    monkeypatch.setattr(Archive, "refresh", adding)
    assert place.open().state.sequence == 1
    seen = read_seen(str(place.folder))
    assert seen is not None
    assert seen.sequence == 2


def test_nothing_is_refused_where_nothing_can_be_kept(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setattr(last_seen, "_warned", [])
    for said in ("off", str(tmp_path / "file")):
        monkeypatch.setenv(VARIABLE, said)
        assert caplog.text == ""
        assert place.backup()
        assert read_seen(place.open().store.url) is None
    (record,) = caplog.records
    assert (
        f"would not be noticed, since {tmp_path / 'file'} cannot be written (Not a directory): set " in record.message
    )


def test_a_user_without_a_home_remembers_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless(_: Path) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv(VARIABLE)
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setattr(Path, "expanduser", homeless)
    assert state_folder() is None
    assert why_not_kept() == "this user has no home folder"


def test_a_damaged_memory_is_named_and_forgotten(
    place: Place, remembered: Path, caplog: pytest.LogCaptureFixture
) -> None:
    place.backup()
    (kept,) = (remembered / "seen").glob("*.json")
    kept.write_text("{")
    assert place.open().state.sequence == 1
    assert "is damaged, and is not compared" in caplog.text
    assert read_seen(place.open().store.url) is not None


def test_of_one_archive_the_newest_commit_stays_whoever_comes_last() -> None:
    newest = LastSeen(archive="a", name="shop", sequence=5, commit="5")
    note_seen("place", newest)
    note_seen("place", newest.model_copy(update={"sequence": 4, "commit": "4"}))
    assert read_seen("place") == newest
    assert str(newest) == "commit 5 of shop (a)"


def test_the_folder_is_that_of_the_user_unless_another_one_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv(VARIABLE)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert state_folder() == tmp_path / "holdfast"
    monkeypatch.delenv("XDG_STATE_HOME")
    assert state_folder() == Path("~/.local/state/holdfast").expanduser()


def test_buckets_of_one_name_on_two_servers_are_two_places(place: Place, tmp_path: Path) -> None:
    one, two = (open_store(str(tmp_path / "bucket")) for _ in range(2))
    one.endpoint, two.endpoint = "http://127.0.0.1:1", "http://127.0.0.1:2"
    assert place_of(one) != place_of(two)
    assert place_of(open_store(str(tmp_path / "bucket"))) == str(tmp_path / "bucket")
