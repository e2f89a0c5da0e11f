"""Paths of data files: which source and block one was written for, and which block may name it."""

from __future__ import annotations

import pytest

from bench.support.blocks import make_block
from holdfast.archive.format.block import Block, JoinedBlock
from holdfast.archive.format.document import FileRecord, TableRecord
from holdfast.archive.format.paths import check_rows, place_of
from holdfast.common.errors import RefusedError

OWN, OTHER = "a" * 32, "b" * 32
FOLDER = f"data/shop/7/snapshot/{OWN}"
ATTEMPT = "0123456789ab"


@pytest.mark.parametrize(
    "path",
    [
        f"{FOLDER}/00000-{ATTEMPT}.parquet",
        f"{FOLDER}/00000.003-{ATTEMPT}.parquet",
        f"data/shop/schema/snapshot/{OWN}/catalog-{ATTEMPT}.json",
        f"data/shop/schema/snapshot/{OWN}/schema-{ATTEMPT}.dump",
        f"data/shop/transactions/changes/{OWN}/2-{ATTEMPT}.parquet",
        f"data/shop/packs/changes/{OWN}/00000-{ATTEMPT}.pack",
        f"data/shop/packs/changes/{OWN}/00000-{ATTEMPT}.pack#128",
    ],
)
def test_a_path_names_its_source_and_its_block(path: str) -> None:
    assert place_of(path) == ("shop", OWN)


@pytest.mark.parametrize(
    "path",
    [
        "",
        "archive.json",
        f"{FOLDER}/",
        f"{FOLDER}/00000.parquet",
        f"{FOLDER}/00000-{ATTEMPT}.txt",
        f"{FOLDER}/00000-{ATTEMPT}.parquet#5",
        f"{FOLDER}/00000-{ATTEMPT}.parquet\n",
        f"{FOLDER}/00000-{ATTEMPT.upper()}.parquet",
        f"{FOLDER}/deeper/00000-{ATTEMPT}.parquet",
        f"{FOLDER[:-1]}/00000-{ATTEMPT}.parquet",
        f"x/{FOLDER}/00000-{ATTEMPT}.parquet",
        f"data/../7/snapshot/{OWN}/00000-{ATTEMPT}.parquet",
        f"data/{'s' * 122}/7/snapshot/{OWN}/00000-{ATTEMPT}.parquet",
        f"data/shop/7/other/{OWN}/00000-{ATTEMPT}.parquet",
    ],
)
def test_what_no_backup_names_so_is_of_no_block(path: str) -> None:
    assert place_of(path) is None


def block_with(*paths: str) -> Block:
    files = tuple(FileRecord(path=path, size=1, sha256="") for path in paths)
    table = TableRecord(id="7", table_schema="shop", name="orders", rows=1, digest="", files=files)
    return make_block(identity=OWN, tables=(table,))


def made_of_others(block: Block) -> tuple[Block, ...]:
    """Return a snapshot of what was here, and a block that was joined."""
    part = JoinedBlock(commit=1, block=make_block())
    return block.model_copy(update={"after": 0}), block.model_copy(update={"parts": (part,)})


def test_a_backup_names_no_rows_of_another_block() -> None:
    check_rows(block_with(f"{FOLDER}/00000-{ATTEMPT}.parquet", "named as no backup does"))
    theirs = f"{FOLDER}/00000-{ATTEMPT}.parquet".replace(OWN, OTHER)
    block = block_with(f"{FOLDER}/00000-{ATTEMPT}.parquet", theirs)
    with pytest.raises(RefusedError, match=f"^block {OWN} names {theirs}, which was written for another block$"):
        check_rows(block)
    for made in made_of_others(block):
        check_rows(made)


def test_a_block_lists_the_packs_that_its_rows_are_in_also_if_it_was_made_of_others() -> None:
    pack = f"data/shop/packs/snapshot/{OWN}/00000-{ATTEMPT}.pack"
    block = block_with(f"{pack}#0", f"{pack}#7")
    for unlisted in (block, *made_of_others(block)):
        with pytest.raises(RefusedError, match=f"^block {OWN} names rows in {pack}, and not that pack$"):
            check_rows(unlisted)
        check_rows(unlisted.model_copy(update={"packs": (FileRecord(path=pack, size=8, sha256=""),)}))
