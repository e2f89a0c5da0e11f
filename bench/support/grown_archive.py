"""Archives of any age and size that hold commits alone: the files that these name are not there."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from holdfast.archive import Archive, State
from holdfast.archive.format.block import Block, Coverage, SourceRecord, Stream
from holdfast.archive.format.checkpoint import write_checkpoint
from holdfast.archive.format.commits import commit_key
from holdfast.archive.format.document import FileRecord, TableRecord
from holdfast.archive.format.model import ArchiveCommit
from holdfast.archive.format.versions import FORMAT, WRITER
from holdfast.common.lsn import show_position
from holdfast.storage import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_START = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Shape:
    """Sizes of an archive: its history, and its content in the end.

    :param commits: that it has seen; each has added a block.
    :param blocks: that are there in the end: a full backup of each source and changes. What came before was removed
        again, as retention does.
    :param files: that these blocks name together.
    :param tables: in each block.
    :param sources: whose blocks take turns.
    :param tail: commits since the newest checkpoint.
    """

    commits: int = 1_000
    blocks: int = 1_000
    files: int = 100_000
    tables: int = 1
    sources: int = 1
    tail: int = 40


def make_archive(place: Path, shape: Shape) -> None:
    """Make an archive; its commits are written as files, since a store waits for the disk at each."""
    archive = Archive.create(open_store(str(place)), name="old")
    (place / "commits").mkdir(exist_ok=True)

    def written() -> Iterator[ArchiveCommit]:
        tip = None
        for commit in _commits(shape):
            linked = commit.model_copy(update={"parent": tip})
            tip = commit.id
            (place / commit_key(commit.sequence)).write_bytes(linked.to_bytes())
            yield linked

    story = written()
    state = State.begun(FORMAT).after(next(story) for _ in range(shape.commits - shape.tail))
    write_checkpoint(archive.store, archive.identity.id, state)
    for _ in story:
        pass


def _commits(shape: Shape) -> Iterator[ArchiveCommit]:
    """Yield commits: each adds a block; those that add the last ones leave nothing of what was there before them."""
    live = min(shape.blocks, shape.commits)
    first_live = shape.commits - live + 1
    for sequence in range(1, shape.commits + 1):
        begins = sequence <= shape.sources or first_live <= sequence < first_live + shape.sources
        gone = (f"b{sequence - live}",) if live < sequence < first_live + live else ()
        yield ArchiveCommit(
            sequence=sequence,
            id=f"c{sequence}",
            parent=None,
            kind="backup",
            format=FORMAT,
            min_reader=FORMAT,
            min_writer=FORMAT,
            fence=None,
            committed_at=_START + timedelta(minutes=sequence),
            writer=WRITER,
            add=(block_of(shape, sequence, shape.files // live if sequence >= first_live else 1, snapshot=begins),),
            remove=gone,
            vacuumed=(f"b{sequence - live - 1}",) if gone and sequence - live > 1 else (),
        )


def block_of(shape: Shape, sequence: int, files: int, *, snapshot: bool) -> Block:
    """Return the block that a commit adds."""
    name, source = f"b{sequence}", f"shop{sequence % shape.sources or ''}"
    at = _START + timedelta(minutes=sequence)
    kind = "snapshot" if snapshot else "changes"
    each_has = max(1, files // shape.tables)
    return Block(
        id=name,
        kind=kind,
        run=f"run-{sequence}",
        source=SourceRecord(name=source, kind="postgresql", database="shop", version="180006"),
        covers=Coverage(
            from_position=None if snapshot else show_position((sequence - shape.sources) * 1000),
            to_position=show_position(sequence * 1000),
            from_time=at - timedelta(minutes=shape.sources),
            to_time=at,
        ),
        tables=tuple(
            TableRecord(
                id=str(7 + table),
                table_schema="public",
                name=f"orders{table or ''}",
                rows=1,
                digest="",
                files=tuple(_file(f"data/{source}/{7 + table}/{kind}/{name}", number) for number in range(each_has)),
            )
            for table in range(shape.tables)
        ),
        catalog=FileRecord(path=f"data/{source}/schema/{name}/catalog-1.json", size=2, sha256="0" * 64),
        schema_dump=None,
        stream=Stream(
            slot="s",
            position=show_position(sequence * 1000),
            opened=snapshot,
            publication="s",
            publication_oid=1,
            followed={7 + table: 70 + table for table in range(shape.tables)},
        ),
        schema_version="1",
    )


def _file(folder: str, number: int) -> FileRecord:
    return FileRecord(path=f"{folder}/{number:05d}-1.parquet", size=9_000, sha256=f"{number:064x}", rows=100)
