"""Files of blocks come from other replicas, each as it was written, and from whom they can be had."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import pytest

from holdfast.archive import Archive
from holdfast.archive.files.transfer import FileCopier, fetch_files, missing_files, send_files
from holdfast.archive.format.document import FileRecord
from holdfast.common.errors import DamagedError, exit_code_of
from holdfast.replication.log.errors import FilesAwayError
from holdfast.replication.work.replica import ReplicatedArchive
from holdfast.storage import ObjectStore, StoreUnavailable, open_store
from tests.support.replicas.replicated import Replicas, nothing

pytestmark = pytest.mark.slow


def put(store: ObjectStore, path: str, body: bytes) -> FileRecord:
    """Write a file, and return what a block says of it."""
    with store.open_write(path) as file:
        file.write(body)
    return FileRecord(path=path, size=len(body), sha256=hashlib.sha256(body).hexdigest())


@pytest.fixture
def places(tmp_path: Path) -> tuple[ObjectStore, ObjectStore]:
    return open_store(str(tmp_path / "source")), open_store(str(tmp_path / "target"))


def test_files_are_missing_that_are_not_there_or_not_in_their_size(places: tuple[ObjectStore, ObjectStore]) -> None:
    source, target = places
    same, short, away = (put(source, f"data/{name}/x", b"content") for name in ("a", "b", "c"))
    put(target, "data/a/x", b"another")  # of the same size: it was checked when it was written
    put(target, "data/b/x", b"cut")
    assert list(missing_files(target, [same, short, away, short])) == [short, away]
    assert list(missing_files(target, [])) == []


def test_what_is_fetched_takes_the_place_of_what_is_there(places: tuple[ObjectStore, ObjectStore]) -> None:
    source, target = places
    files = [put(source, f"data/{number}", b"x" * number) for number in range(1, 20)]
    put(target, "data/3", b"cut off")
    assert fetch_files(source, target, files) == (19, sum(range(1, 20)))
    assert list(missing_files(target, files)) == []
    assert target.get("data/3") == b"xxx"


def test_what_is_sent_leaves_what_is_there_and_tells_what_is_another(places: tuple[ObjectStore, ObjectStore]) -> None:
    source, target = places
    new, same, other = (put(source, f"data/{name}", name.encode()) for name in ("new", "same", "other"))
    put(target, "data/same", b"same")
    put(target, "data/other", b"mine!")
    assert send_files(source, target, [new, same, other]) == [other]
    assert (target.get("data/new"), target.get("data/other")) == (b"new", b"mine!")


@pytest.mark.parametrize("deep", [False, True])
def test_a_copier_brings_what_is_missing_in_chunks_and_deep_also_what_is_damaged(
    places: tuple[ObjectStore, ObjectStore], deep: bool
) -> None:
    source, target = places
    files = [put(source, f"data/{number:02}", b"x" * number) for number in range(1, 20)]
    put(target, "data/03", b"cut off")
    put(target, "data/05", b"other")  # in its size
    put(target, "data/07", b"x" * 7)
    copier = FileCopier(source, target, deep=deep)
    chunks = 1
    while not copier.copy(copier.due(files), seconds=-1.0):
        chunks += 1
    assert 1 < chunks <= 19
    assert (len(copier.copied), copier.replaced) == ((18, 2) if deep else (17, 1))
    assert copier.copied_size == sum(range(1, 20)) - (7 if deep else 12)
    assert target.get("data/05") == (b"xxxxx" if deep else b"other")
    assert copier.due(files) == []


@pytest.mark.parametrize("damage", ["gone", "other"])
def test_what_is_not_as_it_was_written_does_not_come(places: tuple[ObjectStore, ObjectStore], damage: str) -> None:
    source, target = places
    file = put(source, "data/x", b"content")
    source.delete("data/x")
    if damage == "other":
        put(source, "data/x", b"another")
    with pytest.raises(DamagedError, match=r"data/x in .*source is damaged: it "):
        fetch_files(source, target, [file])
    assert list(target.list("data/").objects) == []


def test_only_the_files_that_are_not_there_are_fetched(two: Replicas) -> None:
    two.back_up("near")
    two.sync("far")
    assert two.sync("far").files == 0
    two.back_up("near")
    source, target = two.folder / "near" / "data", two.folder / "far" / "data"
    catalogs = [path for path in source.rglob("catalog-*") if not (target / path.relative_to(source)).exists()]
    for path in catalogs:
        there = target / path.relative_to(source)
        there.parent.mkdir(parents=True)
        shutil.copy(path, there)
    assert two.sync("far").files == 1


def test_a_file_that_nobody_has_is_named_with_who_was_asked(three: Replicas) -> None:
    three.back_up("near")
    shutil.move(three.folder / "near", three.folder / "away")
    with pytest.raises(DamagedError, match=r"which entry 1 \(of near\) adds: near: .*off: .*is missing") as caught:
        three.sync("far")
    assert exit_code_of(caught.value) == 4
    assert not (three.folder / "near").exists()  # not even locks are written where there is no archive
    shutil.move(three.folder / "away", three.folder / "near")
    assert three.sync("far").entries == 1


def test_a_file_that_only_a_replica_that_is_away_may_have_is_no_damage(three: Replicas) -> None:
    three.back_up("near")

    def places(url: str) -> ObjectStore:
        if url.endswith("/near"):
            raise StoreUnavailable("Could not read 'archive.json': the connection was closed.")
        return open_store(url)

    far = ReplicatedArchive.begin(three.place("far"), three.coordination, places)
    said = r"near: Could not read 'archive.json': the connection was closed; off: .*is missing.*\. It is tried again"
    with pytest.raises(FilesAwayError, match=said) as caught:
        far.sync(check=nothing, fence=None)
    assert exit_code_of(caught.value) == 1
    assert three.sync("far").entries == 1


def test_a_file_that_is_damaged_at_one_replica_is_fetched_from_another(three: Replicas) -> None:
    three.back_up("near")
    three.sync("off")
    for path in (three.folder / "near" / "data").rglob("*.parquet"):
        path.chmod(0o644)
        path.write_bytes(b"x" * path.stat().st_size)
    three.sync("far")
    newest = max(three.state("far").blocks.values(), key=lambda placed: placed.commit)
    assert newest.id == three.backups[-1]
    archive = Archive.open(three.place("far"))
    for file in archive.state.blocks[newest.id].block.files():
        assert (three.folder / "far" / file.path).read_bytes() == (three.folder / "off" / file.path).read_bytes()
