"""Files that no block names: which of them may go, and which are left alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from bench.support.blocks import make_block
from holdfast.archive.format.block import Block
from holdfast.archive.format.block_ref import Placed
from holdfast.archive.format.document import FileRecord, TableRecord
from holdfast.archive.format.runs import RunRecord
from holdfast.archive.format.state import Removed, State
from holdfast.archive.maintenance.orphans import Leftovers, at_work, named_files, survey
from holdfast.storage import Listing, ObjectInfo, open_store

NOW = datetime(2026, 3, 2, tzinfo=UTC)
GRACE = timedelta(hours=24)
MINE, OTHER = "a" * 32, "b" * 32


def path(block: str, name: str, *, kind: str = "7", source: str = "shop_db") -> str:
    ending = "json" if kind == "schema" else "parquet"
    return f"data/{source}/{kind}/snapshot/{block}/{name}-{'0' * 12}.{ending}"


def record(key: str, size: int = 10) -> FileRecord:
    return FileRecord(path=key, size=size, sha256="0" * 64)


def block(name: str, *files: str) -> Block:
    """Return a block with files of a table, and one of its schema."""
    rows = tuple(record(path(name, file)) for file in files)
    table = TableRecord(id="7", table_schema="shop", name="orders", rows=1, digest="", files=rows)
    made = make_block(identity=name, tables=(table,))
    return made.model_copy(update={"catalog": record(path(name, "catalog", kind="schema"))})


def listing(*keys: str, young: Iterable[str] = (), size: int = 10) -> Listing:
    """Return a listing of files that are two days old, but for those that are new."""
    ages = {**dict.fromkeys(keys, timedelta(hours=48)), **dict.fromkeys(young, timedelta(hours=1))}
    return Listing(tuple(ObjectInfo(key, size, NOW - age, "x") for key, age in sorted(ages.items())), NOW)


def state(*blocks: Block, **more: object) -> State:
    there = {each.id: Placed(each, number) for number, each in enumerate(blocks, 1)}
    return replace(State.begun(2), blocks=there, **more)  # type: ignore[arg-type]


def left(state: State, found: Listing) -> dict[str, Leftovers]:
    return survey(state, named_files(state), found, GRACE)


WHOLE = block(MINE, "0", "1")
FILES = [path(MINE, "0"), path(MINE, "1"), path(MINE, "catalog", kind="schema")]


def keys(infos: Iterable[ObjectInfo]) -> list[str]:
    return [info.key for info in infos]


def gone(name: str) -> dict[str, Removed]:
    return {name: Removed(id=name, source="shop_db", added=1, removed=2, at=NOW)}


def test_an_archive_without_orphans_has_none() -> None:
    assert left(state(WHOLE), listing(*FILES)) == {"shop_db": Leftovers()}


def test_files_of_a_block_that_nothing_is_known_of_are_orphans_once_they_are_old() -> None:
    orphans = [path(OTHER, "0"), path(OTHER, "1")]
    found = left(state(WHOLE), listing(*FILES, *orphans))["shop_db"]
    assert {name: keys(infos) for name, infos in found.orphans.items()} == {OTHER: orphans}
    assert found.files() == dict.fromkeys(orphans, 10)


def test_one_young_file_keeps_all_of_its_block() -> None:
    found = left(state(), listing(path(OTHER, "0"), young=[path(OTHER, "1")]))["shop_db"]
    assert (found.young, found.orphans, found.files()) == ([OTHER], {}, {})


def test_files_are_told_by_their_source() -> None:
    found = left(state(), listing(path(OTHER, "0"), path(MINE, "0", source="crm")))
    assert {source: list(each.orphans) for source, each in found.items()} == {"shop_db": [OTHER], "crm": [MINE]}


@pytest.mark.parametrize("kind", ["7", "schema"])
def test_what_lost_against_another_attempt_is_a_stray(kind: str) -> None:
    stray = path(MINE, "late", kind=kind)
    found = left(state(WHOLE), listing(*FILES, stray))["shop_db"]
    assert (keys(found.strays), found.files()) == ([stray], {stray: 10})
    assert left(state(WHOLE), listing(*FILES, young=[stray]))["shop_db"] == Leftovers()


class Unread(Placed):
    """A block of which only the head is in memory, and that must not be read."""

    @property
    def block(self) -> Block:
        pytest.fail("the commit of a block was read")


def test_a_block_is_read_only_where_the_sizes_of_its_rows_do_not_add_up() -> None:
    there = replace(State.begun(2), blocks={MINE: Unread(WHOLE, 1)})
    stray = path(MINE, "late", kind="schema")
    assert keys(left(there, listing(*FILES, stray))["shop_db"].strays) == [stray]


def test_files_of_a_block_that_was_removed_and_that_it_does_not_name_may_go() -> None:
    found = left(state(removed=gone(MINE)), listing(path(MINE, "0"), young=[path(MINE, "1")]))["shop_db"]
    assert keys(found.strays) == [path(MINE, "0")]


def test_files_of_an_abandoned_block_may_go_at_any_age() -> None:
    found = left(state(abandoned=frozenset({OTHER})), listing(young=[path(OTHER, "0")]))["shop_db"]
    assert keys(found.returned) == [path(OTHER, "0")]


def test_what_was_put_aside_is_nobodys_to_remove() -> None:
    assert left(state(aside=gone(OTHER)), listing(path(OTHER, "0"))) == {"shop_db": Leftovers()}


def test_files_in_folders_of_others_that_a_block_names_stay() -> None:
    shared = path(OTHER, "0")
    table = WHOLE.tables[0].model_copy(update={"files": (record(shared),)})
    made = WHOLE.model_copy(update={"tables": (table,)})
    assert shared in named_files(state(made))
    assert left(state(made), listing(shared))["shop_db"].files() == {}


def test_keys_of_another_form_are_told_and_never_removed() -> None:
    found = left(state(), listing("data/notes.txt", "data/shop_db/7/snapshot/x/0.parquet"))
    assert found == {"": Leftovers(unknown=["data/notes.txt", "data/shop_db/7/snapshot/x/0.parquet"])}
    assert found[""].files() == {}


def test_blocks_of_recent_runs_are_at_work(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "archive"))
    told = RunRecord(run="r", number=1, operation="backup", state="running", step="reading")
    store.put("runs/r1/000001.json", told.model_copy(update={"block": MINE}).to_bytes())
    store.put("runs/r2/000001.json", told.model_copy(update={"block": OTHER}).to_bytes())
    store.put("runs/r2/000002.json", told.to_bytes())
    store.put("runs/r3/000001.json", b"{")
    # Of each run the newest record counts, and one that is damaged says nothing.
    assert at_work(store, GRACE) - {""} == {MINE}
    assert at_work(store, timedelta(0)) == frozenset()
