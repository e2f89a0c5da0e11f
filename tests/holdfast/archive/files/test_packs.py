"""Packs: the small files in them are read each for itself, and everything else deals with the pack."""

from __future__ import annotations

import hashlib
import io
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import IO

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bench.support.blocks import make_block
from holdfast.archive import Archive, Change
from holdfast.archive.files.blocks import read_batches, write_parquet
from holdfast.archive.files.data_files import open_file, read_file, table_folder
from holdfast.archive.files.file_index import files_of
from holdfast.archive.files.packs import AtHand, Loose, make_pack, packs_of
from holdfast.archive.format import state as state_module
from holdfast.archive.format.block import Block
from holdfast.archive.format.checkpoint import write_checkpoint
from holdfast.archive.format.document import FileRecord, TableRecord
from holdfast.archive.format.paths import place_of
from holdfast.archive.format.versions import PACKS_SINCE
from holdfast.archive.maintenance.copy_archive import copy
from holdfast.archive.maintenance.damage_report import DamageReport
from holdfast.archive.maintenance.vacuum import vacuum
from holdfast.archive.maintenance.verify import verify
from holdfast.common.errors import DamagedError, RefusedError, UsageError
from holdfast.storage import ObjectStore, open_store
from holdfast.storage.contract.parts import AHEAD_BYTES, RangeReader
from locking.store import StoreUnavailable
from tests.support.archives.grown import BODY, Grown

IDENTITY = "a" * 32
SCHEMA = pa.schema([pa.field("id", pa.int64())])
WORDS = {"one": [1], "none": [], "many": list(range(1000))}


def packed_block(store: ObjectStore, identity: str = IDENTITY, *, position: str = "0/100") -> Block:
    """Store a pack with a file for each table, and return the block that names it."""
    loose = Loose()
    records = {}
    for number, (name, values) in enumerate(WORDS.items(), 1):
        folder = table_folder("shop_db", str(number), identity)
        batch = pa.record_batch([pa.array(values, pa.int64())], SCHEMA)
        (records[name],) = write_parquet(loose, f"{folder}/00000", SCHEMA, [batch] if values else [])
    pack = make_pack(
        table_folder("shop_db", "packs", identity), [(file, loose.files[file.path]) for file in records.values()]
    )
    with store.open_write(pack.record.path) as file:
        file.write(pack.body)
    tables = tuple(
        TableRecord(
            id=str(number), table_schema="public", name=name, rows=file.rows, digest="", files=(pack.part(file),)
        )
        for number, (name, file) in enumerate(records.items(), 1)
    )
    schema = f"data/shop_db/schema/snapshot/{identity}/catalog-{'0' * 12}.json"
    with store.open_write(schema) as file:
        file.write(b"{}")
    catalog = FileRecord(path=schema, size=2, sha256=hashlib.sha256(b"{}").hexdigest())
    block = make_block(identity=identity, position=position, tables=tables)
    return block.model_copy(update={"packs": (pack.record,), "catalog": catalog})


@pytest.fixture
def made(archive: Archive) -> Block:
    block = packed_block(archive.store)
    archive.add(lambda state: Change("backup", add=(block,)), check=lambda: None, fence=None)
    return block


def pack_of(archive: Archive) -> Path:
    (found,) = Path(archive.store.url).glob("data/shop_db/packs/snapshot/*/*.pack")
    return found


def test_each_file_in_a_pack_is_read_for_itself(archive: Archive, made: Block) -> None:
    found = {
        table.name: [row["id"] for file in table.files for batch in read_batches(archive.store, file)
                     for row in batch.to_pylist()]
        for table in made.tables
    }  # fmt: skip
    assert found == WORDS
    (many,) = made.tables[2].files
    with open_file(archive.store, many) as file:
        assert pq.read_metadata(file).num_rows == 1000
    assert read_file(archive.store, many) == pack_of(archive).read_bytes()[many.offset :]


def test_the_objects_of_a_block_are_its_packs_and_not_what_is_in_them(archive: Archive, made: Block) -> None:
    (pack,) = made.packs
    assert {file.path for file in made.files()} == {pack.path, made.catalog.path}
    assert made.size == pack.size + 2 == sum(info.size for info in archive.store.list("data/").objects)
    assert pack.rows == 1001
    assert {file.key for table in made.tables for file in table.files} == {pack.path}
    assert [table.files[0].offset for table in made.tables] == [
        0,
        made.tables[0].files[0].size,
        made.tables[0].files[0].size + made.tables[1].files[0].size,
    ]


def test_paths_of_parts_say_which_block_they_were_written_for(made: Block) -> None:
    place = place_of(made.tables[1].files[0].path)
    assert place is not None
    assert place == place_of(made.packs[0].path)
    assert (place.source, place.block) == ("shop_db", IDENTITY)


def test_a_release_that_knows_no_packs_refuses_the_archive(
    archive: Archive, made: Block, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert Archive.open(archive.store).state.min_reader == PACKS_SINCE
    archive.add(lambda state: Change("backup", add=(make_block(),)), check=lambda: None, fence=None)
    assert Archive.open(archive.store).state.min_reader == PACKS_SINCE  # and stays so
    monkeypatch.setattr(state_module, "READS", PACKS_SINCE - 1)
    with pytest.raises(UsageError, match=r"needs a reader of format 3; .* Upgrade holdfast"):
        Archive.open(archive.store)


def test_an_archive_without_packs_stays_readable_for_older_releases(archive: Archive) -> None:
    archive.add(lambda state: Change("backup", add=(make_block(),)), check=lambda: None, fence=None)
    assert archive.state.min_reader == 2


@pytest.mark.parametrize("harm", ["flip", "cut", "remove"])
def test_damage_of_a_pack_is_found_and_says_what_it_costs(archive: Archive, made: Block, harm: str) -> None:
    path = pack_of(archive)
    body = path.read_bytes()
    last = made.tables[2].files[0]
    if harm == "remove":
        path.unlink()
    else:
        path.write_bytes(body[:-1] if harm == "cut" else body[:-1] + bytes([body[-1] ^ 1]))
    with pytest.raises(DamagedError, match=r"\.pack#"):
        read_file(archive.store, last)
    if harm != "remove":
        assert [batch.num_rows for batch in read_batches(archive.store, made.tables[0].files[0])] == [1]
    (damage,) = verify(Archive.open(archive.store), deep=True).damage
    assert damage.path == made.packs[0].path
    assert damage.table == "public.one and 2 more tables"
    assert damage.replaceable
    assert [cost.first for cost in damage.costs] == [1]


def test_a_block_lists_the_packs_that_its_rows_are_in(archive: Archive) -> None:
    block = packed_block(archive.store).model_copy(update={"packs": ()})
    for wrong in (block, block.model_copy(update={"after": 1})):
        change = Change("backup", add=(wrong,))
        with pytest.raises(RefusedError, match=r"names rows in data/.*\.pack, and not that pack"):
            archive.add(lambda state: change, check=lambda: None, fence=None)  # noqa: B023 - called at once


class Ranged:
    """Gives files that fetch ranges of objects, as those of clouds do, and notes what is fetched."""

    url = "memory"

    def __init__(self, objects: dict[str, bytes]) -> None:
        self._objects = objects
        self.fetched: list[int] = []

    def open_read(self, key: str) -> IO[bytes]:
        body = self._objects[key]

        def fetch(offset: int, length: int) -> bytes:
            self.fetched.append(length)
            return body[offset : offset + length]

        return io.BufferedReader(RangeReader(len(body), fetch), AHEAD_BYTES)


def test_of_a_pack_in_a_cloud_no_more_is_fetched_than_the_part(archive: Archive, made: Block) -> None:
    store = Ranged({made.packs[0].path: pack_of(archive).read_bytes()})
    for table in made.tables:
        (file,) = table.files
        read_file(store, file)
    assert store.fetched == [table.files[0].size for table in made.tables]


def test_a_pack_is_fetched_once_where_several_of_its_files_are_read(archive: Archive, made: Block) -> None:
    (pack,), files = made.packs, [table.files[0] for table in made.tables]
    store = Ranged({pack.path: pack_of(archive).read_bytes(), "other": b"x"})
    near = AtHand(store, files)
    assert store.fetched == []
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda file: sum(batch.num_rows for batch in read_batches(near, file)), files * 5))
    assert found == [table.rows for table in made.tables] * 5
    assert store.fetched == [pack.size]
    assert near.open_read("other").read() == b"x"


def test_of_a_pack_that_one_file_is_wanted_of_no_more_is_fetched(archive: Archive, made: Block) -> None:
    store = Ranged({made.packs[0].path: pack_of(archive).read_bytes()})
    (file,) = made.tables[2].files
    assert [batch.num_rows for batch in read_batches(AtHand(store, [file]), file)] == [1000]
    assert store.fetched == [file.size]


def test_of_packs_for_which_there_is_no_room_parts_are_read(archive: Archive, made: Block) -> None:
    body, files = pack_of(archive).read_bytes(), [table.files[0] for table in made.tables]
    others = [file.model_copy(update={"path": f"other.pack#{file.offset}"}) for file in files]
    store = Ranged({made.packs[0].path: body, "other.pack": body})
    near = AtHand(store, [*files, *others], room=len(body))
    for file in (*files, *others, *files):
        assert read_file(near, file) == read_file(Ranged({file.key: body}), file)
    assert store.fetched == [len(body), *(file.size for file in others)]


def test_a_pack_that_could_not_be_fetched_is_fetched_again(archive: Archive, made: Block) -> None:
    body, files = pack_of(archive).read_bytes(), [table.files[0] for table in made.tables]

    class Failing(Ranged):
        failed = False

        def open_read(self, key: str) -> IO[bytes]:
            if self.failed:
                return super().open_read(key)
            self.failed = True

            def fetch(offset: int, length: int) -> bytes:
                raise StoreUnavailable("gone for now")

            return io.BufferedReader(RangeReader(len(body), fetch), AHEAD_BYTES)

    near = AtHand(Failing({made.packs[0].path: body}), files)
    with pytest.raises(StoreUnavailable, match="gone for now"):
        read_file(near, files[0])
    assert read_file(near, files[2]) == body[files[2].offset :]


def test_a_pack_that_is_not_there_is_missing_also_where_it_would_be_kept(archive: Archive, made: Block) -> None:
    near = AtHand(archive.store, [table.files[0] for table in made.tables])
    pack_of(archive).unlink()
    with pytest.raises(DamagedError, match=r"#0 is missing"):
        read_file(near, made.tables[0].files[0])


def test_a_file_that_has_nothing_behind_its_end_is_cut(made: Block) -> None:
    class Strict(io.BytesIO):
        def seek(self, offset: int, whence: int = 0, /) -> int:
            if offset > len(self.getvalue()):
                raise OSError("Cannot seek past end of file.")
            return super().seek(offset, whence)

    class Cut(Ranged):
        def open_read(self, key: str) -> IO[bytes]:
            return Strict(b"PAR1")

    with pytest.raises(DamagedError, match=r"#\d+ in memory is damaged"):
        read_file(Cut({}), made.tables[2].files[0])


def test_a_checkpoint_leaves_out_a_blocks_own_packs_and_keeps_those_of_others(archive: Archive, made: Block) -> None:
    other = make_block(identity="b" * 32, position="0/200", tables=made.tables[:1])
    other = other.model_copy(update={"packs": made.packs, "after": 1})
    archive.add(lambda state: Change("consolidation", add=(other,)), check=lambda: None, fence=None)
    write_checkpoint(archive.store, archive.identity.id, archive.state)
    found = Archive.open(archive.store).state.blocks
    assert found[IDENTITY].head.packs == ()
    assert found[other.id].head.packs == made.packs
    assert [placed.block.packs for placed in found.values()] == [made.packs] * 2
    assert [placed.size for placed in found.values()] == [made.size, 0]


def test_vacuum_keeps_a_pack_that_a_made_snapshot_has_rows_in_and_removes_it_after(
    archive: Archive, made: Block
) -> None:
    path = pack_of(archive)
    other = make_block(identity="b" * 32, position="0/200", tables=made.tables[:1])
    packs = packs_of(made.tables[:1], [made])
    other = other.model_copy(update={"packs": packs, "after": 1, "catalog": made.catalog})

    def change(change: Change) -> None:
        archive.add(lambda state: change, check=lambda: None, fence=None)

    def clean() -> None:
        vacuum(Archive.open(archive.store), grace=timedelta(0), check=lambda: None, fence=None)

    change(Change("consolidation", add=(other,)))
    change(Change("truncation", remove=(IDENTITY,)))
    clean()
    assert path.exists()
    assert verify(Archive.open(archive.store), deep=True).damage == ()
    archive.refresh()
    change(Change("truncation", remove=(other.id,)))
    clean()
    assert not path.exists()


def test_what_a_pack_costs_is_asked_for_the_tables_that_a_made_snapshot_has_in_it(
    archive: Archive, made: Block
) -> None:
    other = make_block(identity="b" * 32, position="0/200", tables=made.tables[:1], at=made.covers.to_time)
    other = other.model_copy(update={"packs": made.packs, "after": 1})
    archive.add(lambda state: Change("consolidation", add=(other,)), check=lambda: None, fence=None)
    (named,) = [file for file in files_of(archive.state.blocks[IDENTITY]) if file.parts]
    assert {(cost.first, cost.last) for cost in DamageReport(archive.state).of(named)} == {(1, 1), (2, 2)}
    assert named.tables == ("1", "2", "3")


def test_packs_are_copied_as_they_are(archive: Archive, made: Block, tmp_path: Path) -> None:
    target = open_store(str(tmp_path / "copy"))
    copy(archive.store, target)
    copied = Archive.open(target)
    assert verify(copied, deep=True).damage == ()
    (placed,) = copied.state.blocks.values()
    assert placed.block == made


def test_what_no_block_names_in_a_folder_of_packs_is_removed(archive: Archive, made: Block) -> None:
    stray = pack_of(archive).with_name(f"00000-{'f' * 12}.pack")
    stray.write_bytes(b"of an attempt that lost")
    vacuum(Archive.open(archive.store), grace=timedelta(0), check=lambda: None, fence=None)
    assert not stray.exists()
    assert pack_of(archive).exists()


def test_of_a_pack_that_has_grown_no_more_is_kept_than_its_files_need(grown: Grown) -> None:
    key = grown.record.path
    at_hand = AtHand(grown.store, [FileRecord(path=f"{key}#{offset}", size=3, sha256="") for offset in (0, 5)])
    with at_hand.open_read(key) as file:
        assert file.read() == BODY[:8]
